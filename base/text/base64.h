// Base 64 as RFC 4648, section 4, has it: with its padding, without line ends.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlc {

[[nodiscard]] std::string to_base64(std::string_view bytes);
// The exact inverse: none for another character, a missing or needless "=", or bits behind the last byte that are not zero.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace mlc
