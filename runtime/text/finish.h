// The steps behind the tokens: cut, put into the template, fill up.
#pragma once

#include "runtime/text/encode.h"
#include "schema/text/chars.h"

namespace mlc::text {

struct TokenizedTexts {
  const Texts& texts;
  std::span<const Token> first, second;
};

[[nodiscard]] Result<std::vector<Encoding>> finish(const Compiled& tokenizer, const TokenizedTexts& tokenized, const EncodeOptions& options);
[[nodiscard]] Status pad(std::vector<Encoding>& encodings, const Padding& padding, uint64_t memory);
// What an encoding of so many tokens takes.
inline uint64_t encoding_bytes(uint64_t tokens) { return tokens * (3 * sizeof(uint32_t) + 2 + 2 * sizeof(TextSpan)) + sizeof(Encoding); }

}  // namespace mlc::text
