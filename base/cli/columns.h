// Text in columns of a terminal.
#pragma once

#include <string>
#include <string_view>

namespace mlc::cli {

inline constexpr size_t kColumns = 100;

// Characters that a UTF-8 text shows, each taken for one column.
[[nodiscard]] size_t columns_of(std::string_view text);

// With blanks behind it, as wide as `width`; longer texts stay as they are.
[[nodiscard]] std::string padded(std::string_view text, size_t width);

// `head`, and behind it the words of `text` in lines of at most kColumns; the lines below begin where the first one did. A
// word that fits no line stands alone. With its line end.
[[nodiscard]] std::string in_lines(std::string_view head, std::string_view text);

}  // namespace mlc::cli
