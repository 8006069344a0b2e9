// libs: mlc_tokenizer
// A compiled tokenizer, then a text behind it: the first four bytes say how long the tokenizer is. Properties: what opens
// encodes any text within the memory that it may take or says why not, lists are of one length, offsets lie in the text
// and on code points, and what tokens are decoded to one by one is what they are decoded to at once.
#include <cstdlib>
#include <cstring>

#include "runtime/text/decode.h"
#include "runtime/text/encode.h"
#include "tests/fuzz/heap_peak.h"

namespace {

void check(const mlc::text::Encoding& e, std::string_view text) {
  const size_t count = e.ids.size();
  if (e.type_ids.size() != count || e.words.size() != count || e.attention.size() != count || e.special.size() != count ||
      e.offsets.size() != count || e.byte_offsets.size() != count)
    std::abort();
  for (const auto& span : e.byte_offsets)
    if (span.begin > span.end || span.end > text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  if (size < 4) return 0;
  uint32_t length = 0;
  std::memcpy(&length, data, 4);
  data += 4, size -= 4;
  length = static_cast<uint32_t>(length % (size + 1));
  const std::string_view text(reinterpret_cast<const char*>(data) + length, size - length);
  const auto tokenizer = text::Compiled::open({reinterpret_cast<const std::byte*>(data), length});
  if (!tokenizer.ok()) {
    if (tokenizer.status().message.empty()) std::abort();
    return 0;
  }
  static const fuzz::HeapPeak heap;
  text::EncodeOptions options;
  options.memory = 1 << 20;
  options.byte_offsets = true;
  if (size % 3 == 1) options.truncation = {8, 2, size % 2 ? text::Side::Left : text::Side::Right};
  heap.begin();
  const auto encodings = text::encode(*tokenizer, {text, size % 5 == 0 ? std::optional(text) : std::nullopt}, options);
  heap.check_at_most(2 * options.memory + 4 * size + (1u << 20));  // the last one: words that the thread keeps
  if (!encodings.ok()) return 0;
  for (const text::Encoding& e : *encodings) check(e, text);
  const auto whole = text::decode(*tokenizer, encodings->front().ids, false, 16 << 20);
  std::string streamed;
  text::Decoder decoder(*tokenizer, false);
  for (const uint32_t id : encodings->front().ids) decoder.push(id, streamed);
  decoder.finish(streamed);
  if (whole.ok() && *whole != streamed) std::abort();
  return 0;
}
