// The filter of system calls: allowed_syscalls.h, made into a seccomp filter.
#pragma once

#include <string>

#include "base/status.h"

namespace mlc::sandbox {

// Empty, or why there are no filters here: the kernel, or how this program was built.
[[nodiscard]] std::string why_no_call_filter();

// For this thread and those that it makes. Needs PR_SET_NO_NEW_PRIVS.
[[nodiscard]] Status filter_calls(bool native_code);

}  // namespace mlc::sandbox
