// Encodes what stands in a file with a tokenizer, for tokenizer_test.py.
//
//   tokenize_lines TOKENIZER.json COMPILED                     compiles it
//   tokenize_lines COMPILED TEXTS [option=number...]
//
// TEXTS: each text is its length in bytes as four bytes, then its bytes. Options: pairs=1 (two texts belong together), length, stride,
// left, cut, pad, multiple, pad_left, pad_id, special=0, decode=1 (a text is ids of four bytes), time=ROUNDS (only how long the fastest takes).
// Writes a line of JSON for each encoding of each text: {"ids": [], "types": [], "offsets": [], "bytes": [], "words": [], ...}.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>

#include "base/text/json.h"
#include "packager/text/compile_tokenizer.h"
#include "runtime/text/decode.h"
#include "runtime/text/encode.h"

namespace {

using namespace mlc;
using Options = std::map<std::string, uint32_t>;

std::string read_file(const char* name) {
  std::ifstream in(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
void list(std::string& out, const char* name, const std::vector<T>& values) {
  out += out.empty() ? "{\"" : ", \"";
  out += name;
  out += "\": [";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    if constexpr (std::is_same_v<T, text::TextSpan>) out += "[" + std::to_string(values[i].begin) + "," + std::to_string(values[i].end) + "]";
    else out += std::to_string(static_cast<int64_t>(values[i] == static_cast<T>(text::kNone) ? -1 : static_cast<int64_t>(values[i])));
  }
  out += "]";
}

void print(const text::Encoding& e, bool last) {
  std::string out;
  list(out, "ids", e.ids), list(out, "types", e.type_ids), list(out, "words", e.words), list(out, "attention", e.attention);
  list(out, "special", e.special), list(out, "offsets", e.offsets), list(out, "bytes", e.byte_offsets);
  std::printf("%s, \"last\": %s}\n", out.c_str(), last ? "true" : "false");
}

text::EncodeOptions encode_options(Options& o) {
  text::EncodeOptions options;
  options.byte_offsets = true;
  options.special_tokens = !o.contains("special") || o["special"] != 0;
  if (o.contains("length"))
    options.truncation = {o["length"], o["stride"], o["left"] ? text::Side::Left : text::Side::Right, static_cast<text::Cut>(o["cut"])};
  if (o.contains("pad")) options.padding = {o["pad"], o["multiple"], o["pad_left"] ? text::Side::Left : text::Side::Right, o["pad_id"], 0};
  return options;
}

void decode_ids(const text::Compiled& tokenizer, std::string_view ids, bool skip) {
  std::vector<uint32_t> numbers(ids.size() / 4);
  std::memcpy(numbers.data(), ids.data(), numbers.size() * 4);
  std::string streamed;
  text::Decoder decoder(tokenizer, skip);
  for (const uint32_t id : numbers) decoder.push(id, streamed);
  decoder.finish(streamed);
  const auto whole = text::decode(tokenizer, numbers, skip, 1u << 30);
  std::printf("{\"text\": %s, \"streamed\": %s}\n", json_quote(*whole).c_str(), json_quote(streamed).c_str());
}

int fail(const Status& status) { return std::fprintf(stderr, "%s\n", status.text().c_str()), static_cast<int>(status.code); }

int time_rounds(const text::Compiled& tokenizer, const std::vector<std::string_view>& all, Options& o) {
  text::EncodeOptions options = encode_options(o);
  options.byte_offsets = false;
  double best = 1e9;
  for (uint32_t round = 0; round < o["time"]; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string_view one : all) {
      const auto encodings = text::encode(tokenizer, {one}, options);
      if (!encodings.ok()) return fail(encodings.status());
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::printf("%f\n", best);
  return 0;
}

int run(const text::Compiled& tokenizer, const std::string& texts, Options& o) {
  const text::EncodeOptions options = encode_options(o);
  std::vector<std::string_view> all;
  for (size_t at = 0; at + 4 <= texts.size();) {
    uint32_t size = 0;
    std::memcpy(&size, texts.data() + at, 4);
    all.push_back(std::string_view(texts).substr(at + 4, size));
    at += 4 + size_t{size};
  }
  if (o["time"]) return time_rounds(tokenizer, all, o);
  for (size_t i = 0; i < all.size(); i += o["pairs"] + 1) {
    if (o["decode"]) {
      decode_ids(tokenizer, all[i], o["special"]);
      continue;
    }
    text::Texts one{all[i]};
    if (o["pairs"]) one.second = all[i + 1];
    const auto encodings = text::encode(tokenizer, one, options);
    if (!encodings.ok()) std::printf("{\"error\": %s, \"last\": true}\n", json_quote(encodings.status().message).c_str());
    else
      for (size_t e = 0; e < encodings->size(); ++e) print((*encodings)[e], e + 1 == encodings->size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string given = read_file(argv[1]);
  if (!std::string_view(argv[1]).ends_with(".compiled")) {
    const auto bytes = text::compile_tokenizer(given, argv[1]);
    if (!bytes.ok()) return fail(bytes.status());
    std::ofstream(argv[2], std::ios::binary).write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
    return 0;
  }
  const auto tokenizer = text::Compiled::open(std::as_bytes(std::span(given)));
  if (!tokenizer.ok()) return fail(tokenizer.status());
  Options options;
  for (int i = 3; i < argc; ++i)
    if (const char* equals = std::strchr(argv[i], '=')) options[std::string(static_cast<const char*>(argv[i]), equals)] = static_cast<uint32_t>(std::atoi(equals + 1));
  return run(*tokenizer, read_file(argv[2]), options);
}
