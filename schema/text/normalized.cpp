#include "schema/text/normalized.h"

#include "base/text/text.h"
#include "schema/text/normalize.h"

namespace mlc::text {

Status text_too_large(uint64_t memory) {
  return Status(Code::Resource, "the text needs more memory to be tokenized than the {} bytes that it may take", memory)
      .hint("cut the text into parts");
}

Status overflow_of(const Chars& chars, uint64_t memory) {
  if (!chars.gave_up()) return text_too_large(memory);
  return Status(Code::Resource, "a pattern of the tokenizer takes too many steps in this text").hint("cut the text into parts");
}

Status read_text(std::string_view text, uint64_t memory, Chars& chars) {
  const uint64_t most = memory / kBytesPerChar;
  if (text.size() / 4 > most) return text_too_large(memory);
  chars.reset(most);
  chars.reserve(text.size());
  uint32_t position = 0;
  for (size_t at = 0; at < text.size(); ++position) {
    auto c = uint32_t{static_cast<uint8_t>(text[at])};
    const unsigned size = c < 0x80 ? 1 : decode_utf8(text, at, c);
    if (size == 0) return Status(Code::Usage, "the text is no UTF-8: byte {} is wrong", uint64_t{at});
    chars.add({c, position, position + 1});
    at += size;
  }
  return chars.overflowed() ? text_too_large(memory) : ok();
}

Result<std::string> normalized(const Compiled& tokenizer, std::string_view text, uint64_t memory) {
  Chars chars;
  MLC_RETURN_IF_ERROR(read_text(text, memory, chars));
  NormalizerSpace space(tokenizer);
  space.scratch.reset(memory / kBytesPerChar);
  normalize(tokenizer, chars, space);
  if (chars.overflowed()) return overflow_of(chars, memory);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) append_utf8(out, chars[i].code_point);
  return out;
}

}  // namespace mlc::text
