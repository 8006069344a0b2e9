#include "targets/family.h"
namespace mlc::targets::portable {
Result<Module> emit(const Target&, std::span<const loop::Kernel>) { return Status(Code::Unsupported, "wip"); }
Status audit(std::span<const std::byte>) { return Status(Code::Unsupported, "wip"); }
}
