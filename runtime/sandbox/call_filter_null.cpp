// Built without libseccomp.
#include "runtime/sandbox/call_filter.h"

namespace mlc::sandbox {

std::string why_no_call_filter() { return "this program was built without libseccomp"; }

Status filter_calls(bool) { return Status(Code::Resource, "{}", why_no_call_filter()); }

}  // namespace mlc::sandbox
