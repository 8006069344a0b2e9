#include "runtime/text/finish.h"

#include <algorithm>

namespace mlc::text {
namespace {

// A part of a text's tokens.
struct Part {
  uint32_t begin, end;
};

uint32_t template_tokens(const Compiled& tokenizer, bool pair) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < tokenizer.num_pieces(pair); ++i) count += tokenizer.piece(pair, i).kind == PieceKind::Token;
  return count;
}

// How many tokens of each text stay.
Status lengths_that_stay(const Truncation& truncation, uint64_t most, bool pair, uint64_t& first, uint64_t& second) {
  if (first + second <= most) return ok();
  const uint64_t beyond = first + second - most;
  if (truncation.cut == Cut::LongestFirst && pair && most > 0) {
    uint64_t shorter = std::min(first, second);
    uint64_t longer = shorter > most ? shorter : std::max(shorter, most - shorter);
    if (shorter + longer > most) shorter = most / 2, longer = shorter + most % 2;
    const bool swap = first > second;
    first = swap ? longer : shorter, second = swap ? shorter : longer;
    return ok();
  }
  if (most == 0) return first = second = 0, ok();
  if (truncation.cut == Cut::LongestFirst) return first = most, ok();
  if (truncation.cut == Cut::OnlySecond && !pair) return Status(Code::Usage, "the second text shall be cut, and there is none");
  uint64_t& cut = truncation.cut == Cut::OnlyFirst ? first : second;
  if (cut <= beyond) return Status(Code::Usage, "a text of {} tokens is too short to be cut by {}", cut, beyond);
  cut -= beyond;
  return ok();
}

// The parts that a text of `count` tokens is cut into.
Status cut_into_parts(const Truncation& truncation, uint32_t count, uint64_t stays, std::vector<Part>& out) {
  if (stays >= count) return out.push_back({0, count}), ok();
  const auto length = static_cast<uint32_t>(stays);
  if (length == 0) return out.push_back({0, 0}), out.push_back({0, count}), ok();
  if (truncation.stride >= length)
    return Status(Code::Usage, "the stride is {}, expected less than the {} tokens that remain of a text", truncation.stride, length);
  const uint32_t step = length - truncation.stride;
  if (truncation.side == Side::Right) {
    for (uint32_t begin = 0;; begin += step) {
      const uint32_t end = std::min(count - begin, length) + begin;
      out.push_back({begin, end});
      if (end == count) return ok();
    }
  }
  for (uint32_t end = count;; end -= step) {
    const uint32_t begin = end > length ? end - length : 0;
    out.push_back({begin, end});
    if (begin == 0) return ok();
  }
}

// Where code points of a text begin, in bytes.
std::vector<uint32_t> byte_positions(std::string_view text) {
  std::vector<uint32_t> out;
  out.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) out.push_back(static_cast<uint32_t>(i));
  out.push_back(static_cast<uint32_t>(text.size()));
  return out;
}

class Assembler {
 public:
  Assembler(const Compiled& tokenizer, const TokenizedTexts& tokenized, const EncodeOptions& options)
      : tokenizer_(tokenizer), tokenized_(tokenized), options_(options), pair_(tokenized.texts.second.has_value()) {
    if (!options.byte_offsets) return;
    positions_[0] = byte_positions(tokenized.texts.first);
    if (pair_) positions_[1] = byte_positions(*tokenized.texts.second);
  }

  Status run(const std::vector<Part> (&parts)[2]) {
    // The reference's order: with the first part of the second text, then with each of the others.
    MLC_RETURN_IF_ERROR(one(parts[0][0], parts[1][0]));
    for (size_t i = 1; i < parts[0].size(); ++i)
      for (const Part& second : parts[1]) MLC_RETURN_IF_ERROR(one(parts[0][i], second));
    for (size_t j = 1; j < parts[1].size(); ++j) MLC_RETURN_IF_ERROR(one(parts[0][0], parts[1][j]));
    return ok();
  }
  std::vector<Encoding> take() { return std::move(out_); }

 private:
  Status one(const Part& first, const Part& second) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < tokenizer_.num_pieces(pair_); ++i) {
      const PieceKind kind = tokenizer_.piece(pair_, i).kind;
      count += kind == PieceKind::Token ? 1 : kind == PieceKind::First ? first.end - first.begin : second.end - second.begin;
    }
    taken_ += encoding_bytes(count);
    if (taken_ > options_.memory)
      return Status(Code::Resource, "the parts of the text take more than the {} bytes that they may take", options_.memory);
    Encoding& e = out_.emplace_back();
    e.ids.reserve(count), e.type_ids.reserve(count), e.words.reserve(count), e.attention.reserve(count), e.special.reserve(count);
    e.offsets.reserve(count);
    if (options_.byte_offsets) e.byte_offsets.reserve(count);
    for (uint32_t i = 0; i < tokenizer_.num_pieces(pair_); ++i) {
      const TemplatePiece piece = tokenizer_.piece(pair_, i);
      if (piece.kind == PieceKind::First) texts(e, 0, first, piece.type);
      else if (piece.kind == PieceKind::Second) texts(e, 1, second, piece.type);
      else if (options_.special_tokens) add(e, piece.id, piece.type, kNone, {0, 0}, {0, 0}, true);
    }
    return ok();
  }

  void texts(Encoding& e, size_t which, const Part& part, uint32_t type) const {
    const std::span<const Token> tokens = which == 0 ? tokenized_.first : tokenized_.second;
    for (uint32_t i = part.begin; i < part.end; ++i) {
      const TextSpan span = trimmed(tokens[i], i == part.begin);
      TextSpan bytes{0, 0};
      if (options_.byte_offsets) bytes = {positions_[which][span.begin], positions_[which][span.end]};
      add(e, tokens[i].id, type, tokens[i].word, span, bytes, false);
    }
  }

  // A blank that stands before the first token may be one that the tokenizer has put there: it is not in the text.
  TextSpan trimmed(const Token& token, bool is_first) const {
    TextSpan span{token.begin, token.end};
    const uint32_t flags = tokenizer_.options().flags;
    if (!(flags & kTrimOffsets)) return span;
    const bool keeps = (is_first || token.begin == 0) && (flags & kTrimKeepsFirst) && token.lead == 1;
    if (!keeps) span.begin = std::min(span.begin + token.lead, span.end);
    if (span.end >= token.trail) span.end = std::max(span.end - token.trail, span.begin);
    return span;
  }

  void add(Encoding& e, uint32_t id, uint32_t type, uint32_t word, TextSpan span, TextSpan bytes, bool special) const {
    e.ids.push_back(id), e.type_ids.push_back(type), e.words.push_back(word);
    e.attention.push_back(1), e.special.push_back(special);
    e.offsets.push_back(span);
    if (options_.byte_offsets) e.byte_offsets.push_back(bytes);
  }

  const Compiled& tokenizer_;
  const TokenizedTexts& tokenized_;
  const EncodeOptions& options_;
  bool pair_;
  std::vector<uint32_t> positions_[2];
  uint64_t taken_ = 0;
  std::vector<Encoding> out_;
};

template <class T>
void fill(std::vector<T>& list, size_t count, Side side, T value) {
  list.insert(side == Side::Left ? list.begin() : list.end(), count, value);
}

}  // namespace

Status pad(std::vector<Encoding>& encodings, const Padding& padding, uint64_t memory) {
  uint64_t length = padding.length;
  if (length == 0)
    for (const Encoding& e : encodings) length = std::max<uint64_t>(length, e.ids.size());
  if (padding.multiple != 0) length = (length + padding.multiple - 1) / padding.multiple * padding.multiple;
  if (length > memory || encoding_bytes(length) > memory / std::max<uint64_t>(encodings.size(), 1))
    return Status(Code::Resource, "{} encodings of {} tokens take more than the {} bytes that they may take", uint64_t{encodings.size()}, length, memory);
  for (Encoding& e : encodings) {
    if (e.ids.size() >= length) continue;
    const size_t count = static_cast<size_t>(length) - e.ids.size();
    const bool bytes = e.byte_offsets.size() == e.ids.size() && !e.ids.empty();
    fill(e.ids, count, padding.side, padding.id);
    fill(e.type_ids, count, padding.side, padding.type);
    fill(e.words, count, padding.side, kNone);
    fill(e.attention, count, padding.side, uint8_t{0});
    fill(e.special, count, padding.side, uint8_t{1});
    fill(e.offsets, count, padding.side, TextSpan{0, 0});
    if (bytes) fill(e.byte_offsets, count, padding.side, TextSpan{0, 0});
  }
  return ok();
}

Result<std::vector<Encoding>> finish(const Compiled& tokenizer, const TokenizedTexts& tokenized, const EncodeOptions& options) {
  const bool pair = tokenized.texts.second.has_value();
  uint64_t first = tokenized.first.size(), second = tokenized.second.size();
  Truncation truncation{0};
  if (options.truncation) {
    truncation = *options.truncation;
    const uint32_t extra = options.special_tokens ? template_tokens(tokenizer, pair) : 0;
    if (truncation.max_length < extra)
      return Status(Code::Usage, "the length is {}, and the template alone has {} tokens", truncation.max_length, extra);
    MLC_RETURN_IF_ERROR(lengths_that_stay(truncation, truncation.max_length - extra, pair, first, second));
  }
  std::vector<Part> parts[2];
  MLC_RETURN_IF_ERROR(cut_into_parts(truncation, static_cast<uint32_t>(tokenized.first.size()), first, parts[0]));
  MLC_RETURN_IF_ERROR(cut_into_parts(truncation, static_cast<uint32_t>(tokenized.second.size()), second, parts[1]));
  Assembler assembler(tokenizer, tokenized, options);
  MLC_RETURN_IF_ERROR(assembler.run(parts));
  std::vector<Encoding> encodings = assembler.take();
  if (options.padding) MLC_RETURN_IF_ERROR(pad(encodings, *options.padding, options.memory));
  return encodings;
}

}  // namespace mlc::text
