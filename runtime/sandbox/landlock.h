// Landlock (Linux 5.13): the process gives up access to files by name, and with newer versions to ports and signals.
#pragma once

#include <string>

#include "base/status.h"

namespace mlc::sandbox {

// Forbids everything that the kernel's landlock knows, and allows nothing: what is open stays usable. Needs
// PR_SET_NO_NEW_PRIVS. Empty: in force; otherwise why this system has none. Resource: it has, and refuses.
[[nodiscard]] Result<std::string> forbid_files();

}  // namespace mlc::sandbox
