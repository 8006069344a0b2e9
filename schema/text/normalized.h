// A text as code points, within the memory that a call may take, and what it is after the normaliser: the same for the writer of a
// tokenizer, which keeps normalised contents of added tokens, and for the reader, which looks for them in normalised texts.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "schema/text/chars.h"

namespace mlc::text {

// What one code point of a normalised text may take, in all lists together while they grow: four of code points, three of
// pieces, tokens, symbols with their candidates, and the answer.
inline constexpr uint64_t kBytesPerChar = 512;

// Usage: no UTF-8 (where is said). Resource: more code points than `memory` has room for, which is the bound that `chars` gets.
[[nodiscard]] Status read_text(std::string_view text, uint64_t memory, Chars& chars);

// Resource, of a text that needs more than these bytes; of code points that overflowed, with the reason.
Status text_too_large(uint64_t memory);
Status overflow_of(const Chars& chars, uint64_t memory);

// `text` after the normaliser's steps.
[[nodiscard]] Result<std::string> normalized(const Compiled& tokenizer, std::string_view text, uint64_t memory);

}  // namespace mlc::text
