#include "runtime/text/split.h"

#include <algorithm>
#include <optional>


namespace mlc::text {
namespace {

// Cuts pieces as a step says. Where nothing is joined, parts go to `out` as they are found.
class Splitter {
 public:
  Splitter(const Compiled& tokenizer, const Step& step, const Chars& chars, std::vector<Match>& matches, std::vector<Piece>& out)
      : tokenizer_(tokenizer), step_(step), behaviour_(static_cast<Behaviour>(step.b & ~kInverted)), inverted_((step.b & kInverted) != 0), chars_(chars),
        matches_(matches), out_(out) {}

  void classes(Piece piece) {
    matches_.clear();
    uint32_t done = piece.begin;
    for (uint32_t i = piece.begin; i < piece.end; ++i) {
      if (!(tokenizer_.class_of(chars_[i].code_point) & step_.a)) continue;
      if (done < i) found(done, i, false);
      found(i, i + 1, true);
      done = i + 1;
    }
    if (done < piece.end) found(done, piece.end, false);
    join();
  }

  void texts(std::span<const uint32_t> what, Piece piece) {
    matches_.clear();
    uint32_t done = piece.begin;
    const auto length = static_cast<uint32_t>(what.size());
    for (uint32_t i = piece.begin; i < piece.end;) {
      if (!begins_with({chars_.data() + i, piece.end - i}, what)) {
        ++i;
        continue;
      }
      if (done < i) found(done, i, false);
      found(i, i + length, true);
      done = i += length;
    }
    if (done < piece.end) found(done, piece.end, false);
    join();
  }

  // False: the search was given up.
  bool pattern(PatternMatcher& matcher, Piece piece) {
    matches_.clear();
    uint32_t done = 0;
    const uint32_t first = piece.begin;
    matcher.begin({chars_.data() + first, piece.end - first});
    for (uint32_t begin = 0, end = 0; matcher.next(begin, end); done = end) {
      if (done < begin) found(first + done, first + begin, false);
      found(first + begin, first + end, true);
    }
    if (first + done < piece.end) found(first + done, piece.end, false);
    join();
    return !matcher.gave_up();
  }

 private:
  void found(uint32_t begin, uint32_t end, bool is) {
    is ^= inverted_;
    if (behaviour_ > Behaviour::Isolated) matches_.push_back({begin, end, is});
    else if (behaviour_ == Behaviour::Isolated || !is) out_.push_back({begin, end});
  }

  void join() {
    switch (behaviour_) {
      case Behaviour::Removed:
      case Behaviour::Isolated: break;
      case Behaviour::Contiguous:
        join([](const Match& m, bool before) { return m.is == before; });
        break;
      case Behaviour::MergedWithPrevious:
        join([](const Match& m, bool before) { return m.is && !before; });
        break;
      case Behaviour::MergedWithNext: join_next(); break;
    }
  }

  template <class Joins>
  void join(Joins joins) {
    const size_t first = out_.size();
    bool before = false;
    for (const Match& m : matches_) {
      if (joins(m, before) && out_.size() > first) out_.back().end = m.end;
      else out_.push_back({m.begin, m.end});
      before = m.is;
    }
  }

  void join_next() {
    const size_t first = out_.size();
    bool after = false;
    for (size_t i = matches_.size(); i-- > 0;) {
      const Match& m = matches_[i];
      if (m.is && !after && out_.size() > first) out_.back().begin = m.begin;
      else out_.push_back({m.begin, m.end});
      after = m.is;
    }
    std::reverse(out_.begin() + static_cast<std::ptrdiff_t>(first), out_.end());
  }

  const Compiled& tokenizer_;
  const Step& step_;
  const Behaviour behaviour_;
  const bool inverted_;
  const Chars& chars_;
  std::vector<Match>& matches_;
  std::vector<Piece>& out_;
};

// The steps that make other code points.
void respell(const Compiled& tokenizer, const Step& step, std::span<const uint32_t> what, const Pieces& text, Pieces& out, PatternSpace& space) {
  out.chars.clear();
  for (const Piece& piece : text.pieces) {
    const std::span<const Char> in(text.chars.data() + piece.begin, piece.end - piece.begin);
    const auto begin = static_cast<uint32_t>(out.chars.size());
    if (piece.added != kNone) {
      out.chars.add(in);
    } else if (step.kind == StepKind::Bytes) {
      spell_bytes(in, out.chars);
    } else if (step.kind == StepKind::ReplacePattern) {
      replace_pattern(tokenizer, step, in, out.chars, space);
    } else if (step.kind == StepKind::Replace) {
      replace(what, tokenizer.text(step.other), in, out.chars);
    } else {
      if (!begins_with(in, what) && (step.a == 0 || in[0].begin == 0)) add_text(tokenizer.text(step.text), in[0], out.chars);
      out.chars.add(in);
    }
    if (out.chars.overflowed()) return;
    if (begin < out.chars.size()) out.pieces.push_back({begin, static_cast<uint32_t>(out.chars.size()), piece.added});
  }
}

// Where added tokens are cut out of a piece.
class Cutter {
 public:
  Cutter(const Compiled& tokenizer, const Trie& trie, std::span<const bool, 256> begin, const Chars& chars, Piece piece, std::vector<Piece>& out)
      : tokenizer_(tokenizer), trie_(trie), begin_(begin), chars_(chars), piece_(piece), out_(out) {}

  void run() {
    uint32_t done = piece_.begin;
    for (uint32_t at = piece_.begin; at < piece_.end;) {
      uint32_t end = 0;
      const uint32_t number = longest(at, end);
      if (number == kNone) {
        ++at;
        continue;
      }
      const uint32_t flags = tokenizer_.added(number).flags;
      const uint32_t next = end;
      if ((flags & kSingleWord) && !stands_alone(at, end)) {
        at = next;
        continue;
      }
      uint32_t begin = at;
      while ((flags & kStripLeft) && begin > done && is(begin - 1, kSpace)) --begin;
      while ((flags & kStripRight) && end < piece_.end && is(end, kSpace)) ++end;
      begin = std::max(begin, done);
      if (done < begin) out_.push_back({done, begin});
      if (begin < end) out_.push_back({begin, end, number});
      done = std::max(done, end);
      at = next;
    }
    if (done < piece_.end) out_.push_back({done, piece_.end});
  }

 private:
  bool is(uint32_t i, uint16_t mask) const { return (tokenizer_.class_of(chars_[i].code_point) & mask) != 0; }
  bool stands_alone(uint32_t begin, uint32_t end) const {
    return (begin == piece_.begin || !is(begin - 1, kWordChar)) && (end == piece_.end || !is(end, kWordChar));
  }

  uint32_t longest(uint32_t at, uint32_t& end) const {
    uint8_t first[4];
    encode_utf8(chars_[at].code_point, first);
    if (!begin_[first[0]]) return kNone;
    uint32_t state = Trie::kRoot, found = kNone;
    for (uint32_t i = at; i < piece_.end; ++i) {
      uint8_t bytes[4];
      const uint32_t count = encode_utf8(chars_[i].code_point, bytes);
      for (uint32_t b = 0; b < count && state != kNone; ++b) state = trie_.step(state, bytes[b]);
      if (state == kNone || i - at > kMaxTokenLen) break;
      if (const uint32_t value = trie_.value(state)) found = value - 1, end = i + 1;
    }
    return found;
  }

  const Compiled& tokenizer_;
  const Trie& trie_;
  std::span<const bool, 256> begin_;
  const Chars& chars_;
  Piece piece_;
  std::vector<Piece>& out_;
};

}  // namespace

AddedTokens::AddedTokens(const Trie& trie) {
  for (uint32_t byte = 0; byte < 256 && !trie.empty(); ++byte) begin_[byte] = trie.step(Trie::kRoot, static_cast<uint8_t>(byte)) != kNone;
}

void AddedTokens::cut(const Compiled& tokenizer, const Trie& trie, const Chars& chars, Piece piece, std::vector<Piece>& out) const {
  if (trie.empty()) out.push_back(piece);
  else Cutter(tokenizer, trie, begin_, chars, piece, out).run();
}

void split(const Compiled& tokenizer, Pieces& text, SplitterSpace& space) {
  const Table<Step>& steps = tokenizer.splitter();
  Pieces& scratch = space.scratch;
  for (uint32_t i = 0; i < steps.size() && !text.chars.overflowed(); ++i) {
    const Step step = steps[i];
    scratch.pieces.clear();
    if (step.kind < StepKind::SplitClass || step.kind == StepKind::PrependMissing) {
      respell(tokenizer, step, space.texts[i], text, scratch, space.pattern);
      text.chars.swap(scratch.chars);
    } else {
      Splitter splitter(tokenizer, step, text.chars, space.matches, scratch.pieces);
      std::optional<PatternMatcher> matcher;
      if (step.kind == StepKind::SplitPattern) matcher.emplace(tokenizer, step.a, space.pattern);
      for (const Piece& piece : text.pieces) {
        if (piece.added != kNone) scratch.pieces.push_back(piece);
        else if (step.kind == StepKind::SplitClass) splitter.classes(piece);
        else if (step.kind == StepKind::SplitText) splitter.texts(space.texts[i], piece);
        else if (!splitter.pattern(*matcher, piece)) return text.chars.give_up();
      }
    }
    text.pieces.swap(scratch.pieces);
  }
}

}  // namespace mlc::text
