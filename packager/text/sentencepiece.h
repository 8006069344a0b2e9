// Model files of SentencePiece (*.model) as another source of a tokenizer.
#pragma once

#include <string>
#include <string_view>

#include "packager/text/draft.h"

namespace mlc::text {

// Malformed: no such file. Unsupported: one of another kind than unigram and BPE, or with what is not covered.
[[nodiscard]] Status read_sentencepiece(std::string_view file, const std::string& name, Draft& draft);

}  // namespace mlc::text
