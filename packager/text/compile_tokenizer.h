// `tokenizer.json`, as the library `tokenizers` writes it, or a model file of SentencePiece, to the compiled form that the runtime reads.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace mlc::text {

// Malformed: no JSON (with its line), or a tokenizer that contradicts itself. Usage, Unsupported: what is there is of
// another kind than expected, or not covered; the message begins with the JSON path. `name` stands in messages; a file whose name ends with
// ".model" is one of SentencePiece. Such a file says nothing of tokens around a text: its template is the text alone.
// `truncation` and `padding` of the file are not part of it: they are the caller's (runtime/text/encode.h).
[[nodiscard]] Result<std::vector<std::byte>> compile_tokenizer(std::string_view file, std::string_view name);

}  // namespace mlc::text
