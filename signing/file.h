// Small files: keys and policies. Internal to signing/ and the tools that manage keys.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace mlc::signing {

// The whole of a regular file of at most `limit` bytes. NotFound: missing, not readable, not a regular file (a FIFO is
// refused without blocking); Malformed: longer. With `private_only`, Untrusted unless the file belongs to this user and
// nobody else may read or write it.
[[nodiscard]] Result<std::string> read_small_file(const std::string& path, size_t limit, bool private_only = false);

// Creates `path`, complete or not at all: written beside its place (O_EXCL, `mode`), synced, then linked. Usage if
// something is there already.
[[nodiscard]] Status create_file(const std::string& path, std::string_view text, mode_t mode);
// The same, but replaces what is there.
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text, mode_t mode);

// Makes the folder and its missing parents with mode 0700.
[[nodiscard]] Status make_private_folders(const std::string& path);

[[nodiscard]] bool file_exists(const std::string& path);

}  // namespace mlc::signing
