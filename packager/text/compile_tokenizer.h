// `tokenizer.json`, as the library `tokenizers` writes it, to the compiled form that the runtime reads.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace mlc::text {

// Malformed: no JSON (with its line), or a tokenizer that contradicts itself. Usage, Unsupported: what is there is of
// another kind than expected, or not covered; the message begins with the JSON path. `name` stands in messages of JSON.
// `truncation` and `padding` of the file are not part of it: they are the caller's (runtime/text/encode.h).
[[nodiscard]] Result<std::vector<std::byte>> compile_tokenizer(std::string_view json, std::string_view name);

}  // namespace mlc::text
