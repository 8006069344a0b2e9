// libs: mlc_tokenizer_compile mlc_tokenizer
// A file that a tokenizer is made of: the first byte says of which kind, a model file of SentencePiece, a tokenizer.json, a regular expression or a
// charsmap. Properties: it is refused with a reason, or what is made opens, encodes a text and is the same when it is made again.
#include <cstdlib>
#include <string>

#include "packager/text/compile_tokenizer.h"
#include "runtime/text/encode.h"

namespace {

using namespace mlc;

std::string quoted(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    out += byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\' ? std::string(1, c) : std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
  }
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0, count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<uint8_t>(c), count += 8;
    while (count >= 6) out.push_back(kDigits[bits >> (count -= 6) & 63]);
  }
  if (count > 0) out.push_back(kDigits[bits << (6 - count) & 63]);
  return out;
}

std::string json_with(const std::string& parts) {
  return R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, " ": 2}}, )" + parts + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t kind = data[0] % 4;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (kind == 2) file = json_with(R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": ")" + quoted(file) + "\"}}");
  if (kind == 3) file = json_with(R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": ")" + base64(file) + "\"}");
  const char* name = kind == 0 ? "tokenizer.model" : "tokenizer.json";
  const auto bytes = text::compile_tokenizer(file, name);
  if (!bytes.ok()) {
    if (bytes.status().message.empty()) std::abort();
    return 0;
  }
  if (size % 8 == 0 && *bytes != *text::compile_tokenizer(file, name)) std::abort();
  const auto tokenizer = text::Compiled::open(*bytes);
  if (!tokenizer.ok()) std::abort();
  text::EncodeOptions options;
  options.memory = 1 << 20;
  (void)text::encode(*tokenizer, {"  Ab\xC3\xA9 <s>\r\n 12 aaaaaaaa"}, options).ok();
  return 0;
}
