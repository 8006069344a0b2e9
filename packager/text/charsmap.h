// The charsmap of SentencePiece: which characters become which, as a double array of Darts with the texts behind it.
#pragma once

#include <string>
#include <string_view>

#include "packager/text/draft.h"

namespace mlc::text {

// The clusters of characters that Unicode says belong together, as a pattern.
extern const std::string_view kClusters;

// Puts it into the draft, which has none before it. `path` begins messages.
[[nodiscard]] Status read_charsmap(std::string_view bytes, const std::string& path, Draft& draft);

}  // namespace mlc::text
