// Files of the project that a test reads. The folder of the project is known to one source, so that objects of all the others
// do not depend on where a clone lies.
#pragma once

#include <string>
#include <string_view>

namespace mlc::testing {

// The absolute path of `relative`, a path from the root of the project; the root itself for "".
std::string source_path(std::string_view relative);

}  // namespace mlc::testing
