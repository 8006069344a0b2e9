#include "runtime/sandbox/sandbox.h"

namespace mlc::sandbox {

std::string why_no_process() { return "on Windows there is no process without privileges"; }
std::string why_no_call_filter() { return why_no_process(); }

Result<Confinement> confine(const Limits&) { return Status(Code::Resource, 6013, "{}", why_no_process()); }
std::vector<int> open_descriptors() { return {}; }  // none is inherited
Result<ChildEnd> run_child(const std::vector<int>&, const std::function<int()>&) { return Status(Code::Resource, 6013, "{}", why_no_process()); }

}  // namespace mlc::sandbox
