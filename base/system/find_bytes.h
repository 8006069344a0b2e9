// A text in a text, in time that grows with the length of both whatever they are: std::string_view::find does not promise that.
#pragma once

#include <string_view>

namespace mlc {

// Where `what` begins first in `text`; npos if it does not.
[[nodiscard]] size_t find_bytes(std::string_view text, std::string_view what);

}  // namespace mlc
