// Files behind symbolic links.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace mlc {

// What is written to in place of `path`: where a symbolic link leads to, even if nothing is there yet; else `path`. Who
// renames a finished file over a path would replace the link otherwise. NotFound: links that lead in a circle.
[[nodiscard]] Result<std::string> behind_links(const std::string& path);

// Where `path`, which a stranger's file says, is below `folder` ("" is the current one), all symbolic links resolved. Malformed: it is absolute,
// or it leads out of the folder, by "..", or by a link. NotFound (E1003): there is nothing.
[[nodiscard]] Result<std::string> place_inside(const std::string& folder, const std::string& path);

// Does it leave where it starts, whatever is there? Told before the file system is asked.
[[nodiscard]] bool leads_out(std::string_view path);

}  // namespace mlc
