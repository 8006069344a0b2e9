#include "runtime/text/normalize.h"

#include <algorithm>

#include "base/text.h"

namespace mlc::text {
namespace {

constexpr uint32_t kHangul = 0xAC00, kHangulEnd = 0xD7A4, kVowels = 21, kTrails = 28;

// Canonical decomposition. What comes out takes its positions from what went in one after the other, as the reference
// does: the first of a decomposition takes the next, the others share that of the one before, in the order after sorting.
class Decomposer {
 public:
  Decomposer(const Compiled& tokenizer, std::span<const Char> in, Chars& out) : tokenizer_(tokenizer), in_(in), out_(out) {}

  void run() {
    for (const Char& c : in_) {
      if (c.code_point >= kHangul && c.code_point < kHangulEnd) hangul(c.code_point - kHangul);
      else if (uint32_t first = 0, count = 0;
               (tokenizer_.class_of(c.code_point) & kDecomposed) && (count = tokenizer_.find_mapped(Map::Decompositions, c.code_point, first)))
        for (uint32_t i = 0; i < count && !out_.overflowed(); ++i) push(tokenizer_.mapped(first + i), i == 0);
      else push(c.code_point, true);
      if (out_.overflowed()) return;
    }
    flush();
  }

 private:
  struct Pending {
    uint32_t code_point, order;
    bool first;
  };

  void hangul(uint32_t index) {
    push(0x1100 + index / (kVowels * kTrails), true);
    push(0x1161 + index % (kVowels * kTrails) / kTrails, false);
    if (index % kTrails != 0) push(0x11A7 + index % kTrails, false);
  }

  void push(uint32_t code_point, bool first) {
    uint32_t order = 0, at = 0;
    if ((tokenizer_.class_of(code_point) & kOrdered) && tokenizer_.find_mapped(Map::CombiningClasses, code_point, at)) order = tokenizer_.mapped(at);
    if (order == 0) flush();
    if (pending_.size() >= out_.room()) return out_.overflow();
    pending_.push_back({code_point, order, first});
    if (order == 0) flush();
  }

  void flush() {
    std::stable_sort(pending_.begin(), pending_.end(), [](const Pending& a, const Pending& b) { return a.order < b.order; });
    for (const Pending& p : pending_) {
      const Char from = p.first ? in_[at_++] : at_ > 0 ? in_[at_ - 1] : Char{0, in_[0].begin, in_[0].begin};
      out_.add({p.code_point, from.begin, from.end});
    }
    pending_.clear();
  }

  const Compiled& tokenizer_;
  std::span<const Char> in_;
  Chars& out_;
  std::vector<Pending> pending_;
  size_t at_ = 0;
};

void lower(const Compiled& tokenizer, std::span<const Char> in, Chars& out) {
  for (const Char& c : in) {
    uint32_t first = 0, count = 0;
    if (tokenizer.class_of(c.code_point) & kLowered) count = tokenizer.find_mapped(Map::SmallLetters, c.code_point, first);
    if (count == 0) out.add(c);
    for (uint32_t i = 0; i < count && !out.overflowed(); ++i) out.add({tokenizer.mapped(first + i), c.begin, c.end});
  }
}

void strip(const Compiled& tokenizer, uint32_t sides, std::span<const Char> in, Chars& out) {
  const auto blank = [&](const Char& c) { return (tokenizer.class_of(c.code_point) & kSpace) != 0; };
  size_t begin = 0, end = in.size();
  while ((sides & 1) && begin < end && blank(in[begin])) ++begin;
  while ((sides & 2) && begin < end && blank(in[end - 1])) --end;
  out.add(in.subspan(begin, end - begin));
}

void apply(const Compiled& tokenizer, const Step& step, std::span<const Char> in, Chars& out) {
  const auto is = [&](const Char& c) { return (tokenizer.class_of(c.code_point) & step.a) != 0; };
  switch (step.kind) {
    case StepKind::Remove:
      for (const Char& c : in)
        if (!is(c)) out.add(c);
      break;
    case StepKind::Blank:
      for (const Char& c : in) out.add({is(c) ? ' ' : c.code_point, c.begin, c.end});
      break;
    case StepKind::Surround:
      for (const Char& c : in) {
        if (is(c)) out.add({' ', c.begin, c.end});
        out.add(c);
        if (is(c)) out.add({' ', c.begin, c.end});
      }
      break;
    case StepKind::Decompose: Decomposer(tokenizer, in, out).run(); break;
    case StepKind::Lower: lower(tokenizer, in, out); break;
    case StepKind::Strip: strip(tokenizer, step.a, in, out); break;
    case StepKind::Replace: replace(code_points(tokenizer.text(step.text)), tokenizer.text(step.other), in, out); break;
    case StepKind::Prepend:
      if (!in.empty()) add_text(tokenizer.text(step.text), in[0], out);
      out.add(in);
      break;
    case StepKind::Bytes: spell_bytes(in, out); break;
    case StepKind::SplitClass:
    case StepKind::SplitText:
    case StepKind::SplitWords:
    case StepKind::PrependMissing:
    case StepKind::PieceWords:
    case StepKind::PieceBytes:
    case StepKind::PieceReplace:
    case StepKind::PieceFallback:
    case StepKind::PieceStrip:
    case StepKind::PieceMeta:
    case StepKind::PieceSuffix:
    case StepKind::TextStrip:
    case StepKind::Count: break;  // Compiled::open lets none of them in
  }
}

// Whether the step leaves every code point as it is.
bool is_idle(const Compiled& tokenizer, const Step& step, const Chars& chars) {
  uint32_t mask = step.a;
  if (step.kind == StepKind::Decompose) mask = kDecomposed | kOrdered;
  else if (step.kind == StepKind::Lower) mask = kLowered;
  else if (step.kind > StepKind::Lower) return false;
  for (size_t i = 0; i < chars.size(); ++i)
    if (tokenizer.class_of(chars[i].code_point) & mask) return false;
  return true;
}

}  // namespace

void add_text(std::string_view text, const Char& place, Chars& out) {
  for (size_t at = 0; at < text.size();) {
    uint32_t c = 0;
    const unsigned size = decode_utf8(text, at, c);
    out.add({size == 0 ? 0xFFFD : c, place.begin, place.end});
    at += size == 0 ? 1 : size;
  }
}

std::vector<uint32_t> code_points(std::string_view text) {
  Chars chars(text.size());
  add_text(text, {}, chars);
  std::vector<uint32_t> out(chars.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = chars[i].code_point;
  return out;
}

void replace(std::span<const uint32_t> what, std::string_view by, std::span<const Char> in, Chars& out) {
  for (size_t i = 0; i < in.size() && !out.overflowed();) {
    if (!begins_with(in.subspan(i), what)) {
      out.add(in[i++]);
      continue;
    }
    i += what.size();
    add_text(by, in[i - 1], out);
  }
}

void normalize(const Compiled& tokenizer, Chars& chars, Chars& scratch) {
  const Table<Step>& steps = tokenizer.normalizer();
  for (uint32_t i = 0; i < steps.size() && !chars.overflowed(); ++i) {
    const Step step = steps[i];
    if (is_idle(tokenizer, step, chars)) continue;
    scratch.clear();
    apply(tokenizer, step, {chars.data(), chars.size()}, scratch);
    chars.swap(scratch);
  }
}

void spell_bytes(std::span<const Char> in, Chars& out) {
  for (const Char& c : in) {
    uint8_t bytes[4];
    const uint32_t count = encode_utf8(c.code_point, bytes);
    for (uint32_t i = 0; i < count; ++i) out.add({code_point_of_byte(bytes[i]), c.begin, c.end});
  }
}

}  // namespace mlc::text
