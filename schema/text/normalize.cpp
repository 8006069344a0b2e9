#include "schema/text/normalize.h"

#include <algorithm>

#include "base/text/text.h"

namespace mlc::text {
namespace {

constexpr uint32_t kHangul = 0xAC00, kHangulEnd = 0xD7A4, kVowels = 21, kTrails = 28;

// Puts code points in the place of others, in order. `change`: how many more they are than those whose place they take: 1 takes
// none and has the part of the one before, 0 takes one, -n takes n more, of which it has the part of the first.
class Rewriter {
 public:
  Rewriter(std::span<const Char> in, Chars& out) : in_(in), out_(out) {}

  void put(uint32_t code_point, int64_t change) {
    if (in_.empty()) return;
    const size_t last = in_.size() - 1;
    const Char from = change <= 0 ? in_[std::min(at_, last)] : at_ > 0 ? in_[std::min(at_, last + 1) - 1] : Char{0, in_[0].begin, in_[0].begin};
    if (change <= 0) at_ += 1 + static_cast<size_t>(-change);
    out_.add({code_point, from.begin, from.end});
  }

 private:
  std::span<const Char> in_;
  Chars& out_;
  size_t at_ = 0;
};

// Puts together what can be one code point, as it comes out of a decomposition.
class Composer {
 public:
  Composer(const Compiled& tokenizer, Rewriter& out) : tokenizer_(tokenizer), out_(out) {}

  void put(uint32_t code_point, uint32_t order, int64_t change) {
    if (!has_starter_) {
      if (order != 0) return out_.put(code_point, change);
      starter_ = code_point, change_ = change, has_starter_ = true;
      return;
    }
    if (held_.empty() || last_order_ < order) {
      if (const uint32_t both = compose(starter_, code_point); both != kNone) {
        starter_ = both, change_ += change - 1;
        return;
      }
    }
    if (order == 0) {
      flush();
      starter_ = code_point, change_ = change, has_starter_ = true;
      return;
    }
    held_.push_back({code_point, change});
    last_order_ = order;
  }

  size_t held() const { return held_.size(); }

  void flush() {
    if (has_starter_) out_.put(starter_, change_);
    for (const Held& held : held_) out_.put(held.code_point, held.change);
    held_.clear();
    has_starter_ = false;
  }

 private:
  struct Held {
    uint32_t code_point;
    int64_t change;
  };

  uint32_t compose(uint32_t first, uint32_t second) const {
    const uint32_t lead = first - 0x1100, vowel = second - 0x1161, trail = second - 0x11A7;
    if (lead < 19 && vowel < kVowels) return kHangul + (lead * kVowels + vowel) * kTrails;
    if (first >= kHangul && first < kHangulEnd && (first - kHangul) % kTrails == 0 && trail > 0 && trail < kTrails) return first + trail;
    return (tokenizer_.class_of(second) & kComposing) ? tokenizer_.composed(first, second) : kNone;
  }

  const Compiled& tokenizer_;
  Rewriter& out_;
  uint32_t starter_ = 0, last_order_ = 0;
  int64_t change_ = 0;
  bool has_starter_ = false;
  std::vector<Held> held_;
};

// What comes out of a decomposition takes its positions from what went in one after the other, as the reference does: the
// first of a decomposition takes the next, the others share that of the one before, in the order after sorting.
class Decomposer {
 public:
  Decomposer(const Compiled& tokenizer, uint32_t how, std::span<const Char> in, Chars& out)
      : tokenizer_(tokenizer), map_((how & 1) ? Map::Compatible : Map::Decompositions), bit_((how & 1) ? kCompatible : kDecomposed), composes_((how & 2) != 0),
        in_(in), out_(out), rewriter_(in, out), composer_(tokenizer, rewriter_) {}

  void run() {
    for (const Char& c : in_) {
      if (c.code_point >= kHangul && c.code_point < kHangulEnd) hangul(c.code_point - kHangul);
      else if (uint32_t first = 0, count = 0; (tokenizer_.class_of(c.code_point) & bit_) && (count = tokenizer_.find_mapped(map_, c.code_point, first)))
        for (uint32_t i = 0; i < count && !out_.overflowed(); ++i) push(tokenizer_.mapped(first + i), i == 0);
      else push(c.code_point, true);
      if (out_.overflowed()) return;
    }
    flush();
    composer_.flush();
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
    if (pending_.size() + composer_.held() >= out_.room()) return out_.overflow();
    pending_.push_back({code_point, order, first});
    if (order == 0) flush();
  }

  void flush() {
    std::stable_sort(pending_.begin(), pending_.end(), [](const Pending& a, const Pending& b) { return a.order < b.order; });
    for (const Pending& p : pending_) {
      if (composes_) composer_.put(p.code_point, p.order, p.first ? 0 : 1);
      else rewriter_.put(p.code_point, p.first ? 0 : 1);
    }
    pending_.clear();
  }

  const Compiled& tokenizer_;
  Map map_;
  uint16_t bit_;
  bool composes_;
  std::span<const Char> in_;
  Chars& out_;
  Rewriter rewriter_;
  Composer composer_;
  std::vector<Pending> pending_;
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

// The text that the shortest or the longest key of the charsmap becomes with which `in` begins; false without one. `count`: of its code points.
bool mapped_begin(const Compiled& tokenizer, bool longest, std::span<const Char> in, std::string_view& by, size_t& count) {
  const Trie& trie = tokenizer.charsmap_trie();
  uint32_t state = trie.empty() ? kNone : Trie::kRoot, found = kNone;
  for (size_t i = 0; i < in.size() && i < kMaxTokenLen && state != kNone; ++i) {
    uint8_t bytes[4];
    const uint32_t length = encode_utf8(in[i].code_point, bytes);
    for (uint32_t b = 0; b < length && state != kNone; ++b) {
      state = trie.step(state, bytes[b]);
      if (state == kNone || trie.value(state) == 0 || (found != kNone && !longest)) continue;
      found = trie.value(state) - 1, count = i + 1;
    }
  }
  if (found == kNone) return false;
  return by = tokenizer.charsmap(found), true;
}

// As SentencePiece does it: the longest key at each place.
void map_longest(const Compiled& tokenizer, std::span<const Char> in, Chars& out) {
  for (size_t at = 0; at < in.size() && !out.overflowed();) {
    std::string_view by;
    size_t count = 0;
    if (!mapped_begin(tokenizer, true, in.subspan(at), by, count)) {
      out.add(in[at++]);
      continue;
    }
    add_text(by, {0, in[at].begin, in[at + count - 1].end}, out);
    at += count;
  }
}

// As the reference does it: a cluster of less than six bytes becomes what the shortest key at its begin does, all of it; else each code point.
class ClusterMapper {
 public:
  ClusterMapper(const Compiled& tokenizer, std::span<const Char> in, Chars& out) : tokenizer_(tokenizer), in_(in), out_(out), rewriter_(in, out) {}

  void run(uint32_t clusters, PatternSpace& space) {
    PatternMatcher matcher(tokenizer_, clusters, space);
    matcher.begin(in_);
    uint32_t done = 0;
    for (uint32_t begin = 0, end = 0; matcher.next(begin, end) && !out_.overflowed(); done = end) {
      each(done, begin);
      if (!(bytes_of(begin, end) < 6 && map(begin, end))) each(begin, end);
    }
    each(done, static_cast<uint32_t>(in_.size()));
    if (holds_) rewriter_.put(held_, held_change_);
  }

 private:
  size_t bytes_of(uint32_t begin, uint32_t end) const {
    size_t bytes = 0;
    uint8_t unused[4];
    for (uint32_t i = begin; i < end && bytes < 6; ++i) bytes += encode_utf8(in_[i].code_point, unused);
    return bytes;
  }
  void each(uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end && !out_.overflowed(); ++i)
      if (!map(i, i + 1)) put(in_[i].code_point, 0);
  }
  void put(uint32_t code_point, int64_t change) {
    if (holds_) rewriter_.put(held_, held_change_);
    holds_ = true, held_ = code_point, held_change_ = change;
  }
  // Of more code points than there were the last ones are new; of less the last one stands for the others too, and of none the one before them.
  bool map(uint32_t begin, uint32_t end) {
    std::string_view by;
    size_t unused = 0;
    if (!mapped_begin(tokenizer_, false, in_.subspan(begin, end - begin), by, unused)) return false;
    const std::vector<uint32_t> points = code_points(by);
    const int64_t before = end - begin, after = static_cast<int64_t>(points.size());
    for (int64_t i = 0; i < after && !out_.overflowed(); ++i) put(points[static_cast<size_t>(i)], i >= before ? 1 : 0);
    if (after < before) held_change_ += after - before;
    return true;
  }

  const Compiled& tokenizer_;
  std::span<const Char> in_;
  Chars& out_;
  Rewriter rewriter_;
  bool holds_ = false;  // the last one, which may yet stand for more
  uint32_t held_ = 0;
  int64_t held_change_ = 0;
};

void apply(const Compiled& tokenizer, const Step& step, std::span<const uint32_t> text, std::span<const Char> in, Chars& out, PatternSpace& space) {
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
    case StepKind::Decompose: Decomposer(tokenizer, step.a, in, out).run(); break;
    case StepKind::Lower: lower(tokenizer, in, out); break;
    case StepKind::Strip: strip(tokenizer, step.a, in, out); break;
    case StepKind::Replace: replace(text, tokenizer.text(step.other), in, out); break;
    case StepKind::Prepend:
      if (!in.empty()) add_text(tokenizer.text(step.text), in[0], out);
      out.add(in);
      break;
    case StepKind::Charsmap:
      if (step.a == 0) map_longest(tokenizer, in, out);
      else ClusterMapper(tokenizer, in, out).run(step.a - 1, space);
      break;
    case StepKind::ReplacePattern: replace_pattern(tokenizer, step, in, out, space); break;
    case StepKind::Bytes: spell_bytes(in, out); break;
    case StepKind::SplitClass:
    case StepKind::SplitText:
    case StepKind::SplitPattern:
    case StepKind::PrependMissing:
    case StepKind::PieceWords:
    case StepKind::PieceBytes:
    case StepKind::PieceReplace:
    case StepKind::PieceReplacePattern:
    case StepKind::PieceFallback:
    case StepKind::PieceCtc:
    case StepKind::PieceStrip:
    case StepKind::PieceMeta:
    case StepKind::PieceSuffix:
    case StepKind::TextStrip:
    case StepKind::FrontStrip:
    case StepKind::Count: break;  // Compiled::open lets none of them in
  }
}

// Code points of none of these classes stay what they are.
uint32_t decomposing_classes(const Step& step) {
  const uint32_t forms = (step.a & 1) ? kCompatible : kDecomposed;
  return forms | kOrdered | ((step.a & 2) ? uint32_t{kComposing} : 0);
}

// Whether no key of the charsmap is ASCII alone and begins with that code point.
bool is_unmapped_ascii(const Trie& trie, uint32_t code_point) {
  const uint32_t state = trie.empty() ? kNone : trie.step(Trie::kRoot, static_cast<uint8_t>(code_point));
  if (state == kNone) return true;
  if (trie.value(state) != 0) return false;
  for (uint8_t next = 0; next < 128; ++next)
    if (trie.step(state, next) != kNone) return false;
  return true;
}

// Whether the step leaves every code point as it is.
bool is_idle(const Compiled& tokenizer, const Step& step, const Chars& chars) {
  uint32_t mask = step.a;
  if (step.kind == StepKind::Decompose) mask = decomposing_classes(step);
  else if (step.kind == StepKind::Lower) mask = kLowered;
  else if (step.kind > StepKind::Lower) return false;
  for (size_t i = 0; i < chars.size(); ++i)
    if (tokenizer.class_of(chars[i].code_point) & mask) return false;
  return true;
}

}  // namespace

AsciiSteps::AsciiSteps(const Compiled& tokenizer) {
  const Table<Step>& steps = tokenizer.normalizer();
  const auto looks_at_one = [](StepKind kind) { return kind <= StepKind::Lower || kind == StepKind::Charsmap; };
  while (count_ < steps.size() && looks_at_one(steps[count_].kind)) ++count_;
  for (uint8_t c = 0; c < 128; ++c) {
    becomes_[c] = follow(tokenizer, c);
    changes_ |= becomes_[c] != c;
  }
}

uint8_t AsciiSteps::follow(const Compiled& tokenizer, uint32_t c) const {
  for (uint32_t i = 0; i < count_; ++i) {
    const Step step = tokenizer.normalizer()[i];
    const uint32_t classes = tokenizer.class_of(c);
    uint32_t first = 0;
    if (step.kind == StepKind::Remove && (classes & step.a)) return kRemoved;
    if (step.kind == StepKind::Blank && (classes & step.a)) c = ' ';
    if (step.kind == StepKind::Surround && (classes & step.a)) return kOther;
    if (step.kind == StepKind::Decompose && (classes & decomposing_classes(step))) return kOther;
    if (step.kind == StepKind::Charsmap && !is_unmapped_ascii(tokenizer.charsmap_trie(), c)) return kOther;
    if (step.kind != StepKind::Lower || !(classes & kLowered)) continue;
    const uint32_t count = tokenizer.find_mapped(Map::SmallLetters, c, first);
    if (count == 0) continue;
    c = tokenizer.mapped(first);
    if (count > 1 || c >= 128) return kOther;
  }
  return static_cast<uint8_t>(c);
}

uint32_t AsciiSteps::run(Chars& chars) const {
  if (count_ == 0) return 0;
  for (size_t i = 0; i < chars.size(); ++i)
    if (const uint32_t c = chars[i].code_point; c >= 128 || becomes_[c] == kOther) return 0;
  if (!changes_) return count_;
  chars.rewrite([this](Char& c) {
    c.code_point = becomes_[c.code_point];
    return c.code_point != kRemoved;
  });
  return count_;
}

StepTexts step_texts(const Compiled& tokenizer, const Table<Step>& steps) {
  StepTexts out;
  for (uint32_t i = 0; i < steps.size(); ++i) out.push_back(code_points(tokenizer.text(steps[i].text)));
  return out;
}

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
  size_t done = 0;
  for (size_t i = 0; i < in.size() && !out.overflowed();) {
    if (!begins_with(in.subspan(i), what)) {
      ++i;
      continue;
    }
    out.add(in.subspan(done, i - done));
    done = i += what.size();
    add_text(by, in[i - 1], out);
  }
  out.add(in.subspan(done));
}

void replace_pattern(const Compiled& tokenizer, const Step& step, std::span<const Char> in, Chars& out, PatternSpace& space) {
  PatternMatcher matcher(tokenizer, step.a, space);
  matcher.begin(in);
  uint32_t done = 0;
  for (uint32_t begin = 0, end = 0; matcher.next(begin, end) && !out.overflowed(); done = end) {
    out.add(in.subspan(done, begin - done));
    add_text(tokenizer.text(step.other), in[end - 1], out);
  }
  if (matcher.gave_up()) return out.give_up();
  out.add(in.subspan(done));
}

void normalize(const Compiled& tokenizer, Chars& chars, NormalizerSpace& space) {
  const Table<Step>& steps = tokenizer.normalizer();
  for (uint32_t i = space.ascii.run(chars); i < steps.size() && !chars.overflowed(); ++i) {
    const Step step = steps[i];
    if (is_idle(tokenizer, step, chars)) continue;
    space.scratch.clear();
    apply(tokenizer, step, space.texts[i], {chars.data(), chars.size()}, space.scratch, space.pattern);
    chars.swap(space.scratch);
  }
}

void spell_bytes(std::span<const Char> in, Chars& out) {
  for (const Char& c : in) {
    if (c.code_point > ' ' && c.code_point < 0x7F) {
      out.add(c);
      continue;
    }
    uint8_t bytes[4];
    const uint32_t count = encode_utf8(c.code_point, bytes);
    for (uint32_t i = 0; i < count; ++i) out.add({code_point_of_byte(bytes[i]), c.begin, c.end});
  }
}

}  // namespace mlc::text
