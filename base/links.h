// Files behind symbolic links.
#pragma once

#include <string>

#include "base/status.h"

namespace mlc {

// What is written to in place of `path`: where a symbolic link leads to, even if nothing is there yet; else `path`. Who
// renames a finished file over a path would replace the link otherwise. NotFound: links that lead in a circle.
[[nodiscard]] Result<std::string> behind_links(const std::string& path);

}  // namespace mlc
