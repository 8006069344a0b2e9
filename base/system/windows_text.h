// Texts and names of files as Windows has them: UTF-16. Everything else of this project has UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace mlc::windows {

// Bytes that are no UTF-8 become U+FFFD, and so do halves of a character in the other direction.
[[nodiscard]] std::wstring wide(std::string_view utf8);
[[nodiscard]] std::string narrow(std::wstring_view utf16);

// A name for calls of the system: from a drive on, each / a \, behind \\?\ so that it may have more than 260 characters. Names that
// have such a start already (devices, too) stay as they are. Empty, which no call accepts: the name has a zero in it.
[[nodiscard]] std::wstring wide_path(std::string_view utf8);
// A name as a user sees it: no \\?\ before it, each \ a /.
[[nodiscard]] std::string plain_path(std::wstring_view path);

// What the system says about GetLastError or another number of its own.
[[nodiscard]] std::string last_error();
[[nodiscard]] std::string error_text(unsigned long error);
// errno becomes what corresponds to GetLastError.
void set_errno();

// Of the environment; empty: not there.
[[nodiscard]] std::string variable(const wchar_t* name);

}  // namespace mlc::windows
