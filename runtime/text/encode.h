// Texts to numbers: what the step `tokenize` of a pipeline calls.
//
//   MLC_ASSIGN(const text::Compiled tokenizer, text::Compiled::open(bytes));     once; `bytes` outlive it
//   MLC_ASSIGN(auto encodings, text::encode(tokenizer, {"a text"}, options));    any number of threads at once
//
// The first encoding is the answer; more follow where a text was cut and `stride` or the rest is asked for. Memory is
// bounded by `EncodeOptions::memory`, time by n log n of the text's length (spec/tokenizer.md has the factors). Beyond it a
// thread keeps, until it ends, a few megabytes for each of the last four tokenizers that it had, words of its texts among them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schema/text/compiled.h"

namespace mlc::text {

enum class Side : uint8_t { Right, Left };
// Which of two texts is cut: the longer one, or always the same.
enum class Cut : uint8_t { LongestFirst, OnlyFirst, OnlySecond };

struct Truncation {
  uint32_t max_length;  // with the tokens of the template
  uint32_t stride = 0;  // tokens that neighbouring parts share
  Side side = Side::Right;
  Cut cut = Cut::LongestFirst;
};

struct Padding {
  uint32_t length = 0;    // 0: as long as the longest
  uint32_t multiple = 0;  // of which the length is a multiple; 0: any
  Side side = Side::Right;
  uint32_t id = 0, type = 0;
};

struct EncodeOptions {
  bool special_tokens = true;  // those of the template
  bool byte_offsets = false;   // beside those in code points
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;  // of all encodings of a call together
  uint64_t memory = 64u << 20;     // bytes that a call may hold, what it answers included
};

struct TextSpan {
  uint32_t begin, end;
  bool operator==(const TextSpan&) const = default;
};

// Lists of one length, of `byte_offsets` where it was asked for.
struct Encoding {
  std::vector<uint32_t> ids, type_ids, words;  // words: kNone of tokens that stand in no text
  std::vector<uint8_t> attention, special;
  std::vector<TextSpan> offsets;       // code points of the text that the token comes from
  std::vector<TextSpan> byte_offsets;  // likewise in bytes
};

struct Texts {
  std::string_view first;
  std::optional<std::string_view> second = std::nullopt;
};

// Usage: no UTF-8 (where is said), a length that leaves no room for the template, no second text to be cut. Resource: more
// memory than the options allow.
[[nodiscard]] Result<std::vector<Encoding>> encode(const Compiled& tokenizer, const Texts& texts, const EncodeOptions& options);
// The first encodings of several texts, padded together; with `text_of` all encodings of each text, which gets the number of each
// one's text. Usage where the length leaves nothing of a text whose parts are asked for.
[[nodiscard]] Result<std::vector<Encoding>> encode_batch(const Compiled& tokenizer, std::span<const Texts> texts, const EncodeOptions& options,
                                                         std::vector<uint32_t>* text_of = nullptr);

}  // namespace mlc::text
