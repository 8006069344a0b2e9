#include "packager/text/pattern.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text/text.h"
#include "schema/text/compiled.h"

namespace mlc::text {
namespace {

constexpr size_t kMaxPatternLen = 1u << 16;
constexpr unsigned kMaxPatternDepth = 64;
constexpr uint32_t kMaxRepeats = 1000;
constexpr size_t kMaxPlaces = 20'000;
constexpr size_t kMostRanges = 1u << 20;      // of the sets of all places: a pattern of the reference has some ten thousand
constexpr unsigned kMostQuantifiers = 64;     // behind one another
constexpr uint32_t kEndless = kNone;

struct Node {
  enum class Kind { Set, Ahead, Behind, Row, Either, Repeat } kind;
  CodePoints set = {};
  bool edge = false;
  std::vector<Node> parts = {};
  uint32_t least = 1, most = 1;
  bool lazy = false;
};

// Outside of brackets the reference counts these numbers of Latin-1 among the characters of a word, and no others of their category.
CodePoints word_chars() {
  CodePoints out;
  (void)shorthand_code_points('w', out);
  out.add(0xB2, 0xB3), out.add(0xB9, 0xB9), out.add(0xBC, 0xBE);
  return out;
}

struct Flags {
  bool any_case = false, dot_is_all = false;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Result<Node> run() {
    if (text_.size() > kMaxPatternLen) return refuse("it has more than 65,536 bytes");
    MLC_ASSIGN(Node node, either({}, 0));
    if (at_ != text_.size()) return wrong("')' without '('");
    return node;
  }

 private:
  Status wrong(std::string_view what) const {
    return Status(Code::Malformed, "{}: no regular expression, at byte {}: {}", path_, uint64_t{at_}, what);
  }
  Status refuse(std::string_view what) const { return Status(Code::Unsupported, "{}: at byte {}: {}", path_, uint64_t{at_}, what); }
  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool eat(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    return at_ += what.size(), true;
  }
  Result<uint32_t> code_point() {
    uint32_t c = 0;
    const unsigned size = decode_utf8(text_, at_, c);
    if (size == 0) return wrong(more() ? "it is no UTF-8" : "it ends too early");
    return at_ += size, c;
  }

  Result<Node> either(Flags flags, unsigned depth) {
    if (depth > kMaxPatternDepth) return refuse("more than 64 groups in each other");
    Node out{Node::Kind::Either};
    do {
      MLC_ASSIGN(Node part, row(flags, depth));
      out.parts.push_back(std::move(part));
    } while (eat("|"));
    if (out.parts.size() > 1) return out;
    return Node(std::move(out.parts.front()));
  }

  Result<Node> row(Flags& flags, unsigned depth) {
    Node out{Node::Kind::Row};
    while (more() && peek() != '|' && peek() != ')') {
      if (eat("(?#")) {
        while (more() && peek() != ')') ++at_;
        if (!eat(")")) return wrong("a comment without end");
        continue;
      }
      const bool was_any_case = flags.any_case;
      MLC_ASSIGN(std::optional<Node> part, atom(flags, depth));
      if (!part) continue;
      const bool single = part->kind == Node::Kind::Set;
      MLC_ASSIGN(Node repeated, quantified(std::move(*part)));
      if (single && was_any_case && !out.parts.empty() && repeated.kind == Node::Kind::Set && out.parts.back().kind == Node::Kind::Set &&
          joins_in_case(out.parts.back().set, repeated.set))
        return refuse("letters that are one letter in another case are not covered where case does not count");
      out.parts.push_back(std::move(repeated));
    }
    return out;
  }

  // Nothing: flags for what follows.
  Result<std::optional<Node>> atom(Flags& flags, unsigned depth) {
    if (peek() == '(') return group(flags, depth);
    Node out{Node::Kind::Set};
    if (eat("[")) {
      MLC_ASSIGN(out.set, char_class(flags, depth));
      return std::optional<Node>(std::move(out));
    }
    if (eat(".")) {
      out.set = flags.dot_is_all ? CodePoints(0, kCodePoints - 1) : CodePoints('\n', '\n').others();
      return std::optional<Node>(std::move(out));
    }
    if (eat("^")) return std::optional<Node>(Node{Node::Kind::Behind, CodePoints('\n', '\n'), true});
    if (eat("$")) return std::optional<Node>(Node{Node::Kind::Ahead, CodePoints('\n', '\n'), true});
    if (eat("\\A")) return std::optional<Node>(Node{Node::Kind::Behind, {}, true});
    if (eat("\\z")) return std::optional<Node>(Node{Node::Kind::Ahead, {}, true});
    if (eat("\\b")) return std::optional<Node>(word_edge(true));
    if (eat("\\B")) return std::optional<Node>(word_edge(false));
    if (peek() == '*' || peek() == '+' || peek() == '?') return wrong("nothing stands before the quantifier");
    if (eat("\\w")) {
      out.set = word_chars();
    } else if (eat("\\W")) {
      out.set = word_chars().others();
    } else if (eat("\\")) {
      MLC_ASSIGN(out.set, escape());
    } else {
      MLC_ASSIGN(const uint32_t c, code_point());
      out.set = CodePoints(c, c);
    }
    if (flags.any_case && !any_case(out.set)) return refuse("a letter that is several in another case is not covered where case does not count");
    return std::optional<Node>(std::move(out));
  }

  // Between a character of a word and none, or not.
  static Node word_edge(bool is) {
    const CodePoints word = word_chars();
    const CodePoints others = word.others();
    const auto both = [](const CodePoints& before, bool begin, const CodePoints& after, bool end) {
      Node row{Node::Kind::Row};
      row.parts.push_back({Node::Kind::Behind, before, begin});
      row.parts.push_back({Node::Kind::Ahead, after, end});
      return row;
    };
    Node out{Node::Kind::Either};
    out.parts.push_back(is ? both(word, false, others, true) : both(word, false, word, false));
    out.parts.push_back(is ? both(others, true, word, false) : both(others, true, others, true));
    return out;
  }

  Result<std::optional<Node>> group(Flags& flags, unsigned depth) {
    eat("(");
    struct Look {
      std::string_view begin;
      bool ahead, negative;
    };
    static constexpr Look kLooks[] = {{"?=", true, false}, {"?!", true, true}, {"?<=", false, false}, {"?<!", false, true}};
    for (const Look& look : kLooks) {
      if (!eat(look.begin)) continue;
      Flags inside = flags;
      MLC_ASSIGN(const Node body, closed(inside, depth));
      Node out{look.ahead ? Node::Kind::Ahead : Node::Kind::Behind};
      if (!one_of(body, out.kind, out.set, out.edge)) return refuse("looking ahead or behind further than one character is not covered");
      if (look.negative) out.set = out.set.others(), out.edge = !out.edge;
      return std::optional<Node>(std::move(out));
    }
    Flags inside = flags;
    if (eat("?>")) {
      MLC_ASSIGN(Node body, closed(inside, depth));
      while (body.kind == Node::Kind::Row && body.parts.size() == 1) body = Node(std::move(body.parts.front()));
      if (body.kind == Node::Kind::Set) return std::optional<Node>(std::move(body));
      if (body.kind != Node::Kind::Repeat || body.lazy) return refuse("groups that are not gone back into are covered for one repeated character only");
      MLC_ASSIGN(Node out, possessive(std::move(body)));
      return std::optional<Node>(std::move(out));
    }
    if (peek() == '?' && !eat("?:")) {
      ++at_;
      if (eat("<") || eat("'")) {
        while (more() && peek() != '>' && peek() != '\'') ++at_;
        if (more()) ++at_;
      } else {
        MLC_ASSIGN(const bool rest, read_flags(inside));
        if (rest) return flags = inside, std::optional<Node>();
      }
    }
    MLC_ASSIGN(Node body, closed(inside, depth));
    return std::optional<Node>(std::move(body));
  }

  // Behind "(?". True: they count for the rest of the group around, and the parenthesis is closed.
  Result<bool> read_flags(Flags& flags) {
    bool on = true;
    for (; more(); ++at_) {
      const char c = peek();
      if (c == ':' || c == ')') return ++at_, c == ')';
      if (c == '-') on = false;
      else if (c == 'i') flags.any_case = on;
      else if (c == 'm') flags.dot_is_all = on;
      else return refuse("a group of this kind is not covered; covered are (...), (?:...), (?i:...), (?m:...), (?=...), (?!...), (?<=...), (?<!...)");
    }
    return wrong("a group without end");
  }

  Result<Node> closed(Flags flags, unsigned depth) {
    MLC_ASSIGN(Node body, either(flags, depth + 1));
    if (!eat(")")) return wrong("a group without end");
    return body;
  }

  // Whether what is looked for is one code point, or an edge of the text.
  static bool one_of(const Node& node, Node::Kind look, CodePoints& set, bool& edge) {
    if (node.kind == Node::Kind::Set) return set.add(node.set), true;
    if (node.kind == look) return set.add(node.set), edge |= node.edge, true;
    if (node.kind == Node::Kind::Row) return node.parts.size() == 1 && one_of(node.parts.front(), look, set, edge);
    if (node.kind == Node::Kind::Repeat) return node.least == 1 && one_of(node.parts.front(), look, set, edge);
    return node.kind == Node::Kind::Either &&
           std::all_of(node.parts.begin(), node.parts.end(), [&](const Node& part) { return one_of(part, look, set, edge); });
  }

  // As often as it goes, and never given back: what follows is none of them.
  Result<Node> possessive(Node repeat) {
    Node& part = repeat.parts.front();
    while (part.kind == Node::Kind::Row && part.parts.size() == 1) part = Node(std::move(part.parts.front()));
    if (part.kind != Node::Kind::Set) return refuse("quantifiers that give nothing back are covered behind one character only");
    const Node ahead{Node::Kind::Ahead, part.set.others(), true};
    Node out{Node::Kind::Row};
    if (repeat.most == kEndless) {
      out.parts.push_back(std::move(repeat)), out.parts.push_back(ahead);
      return out;
    }
    if (repeat.least != 0 || repeat.most != 1) return refuse("groups that are not gone back into are not covered with these numbers");
    Node choice{Node::Kind::Either};
    choice.parts.push_back(part), choice.parts.push_back(ahead);
    return choice;
  }

  Result<Node> quantified(Node part) {
    for (unsigned count = 0;; ++count) {
      if (count > kMostQuantifiers) return refuse("more than 64 quantifiers behind one another");
      Node repeat{Node::Kind::Repeat};
      bool interval = false;
      if (eat("*")) repeat.least = 0, repeat.most = kEndless;
      else if (eat("+")) repeat.least = 1, repeat.most = kEndless;
      else if (eat("?")) repeat.least = 0, repeat.most = 1;
      else if (interval = read_interval(repeat.least, repeat.most); !interval) return part;
      if (repeat.least > repeat.most || (repeat.most != kEndless && repeat.most > kMaxRepeats) || repeat.least > kMaxRepeats)
        return refuse("at most 1,000 repeats are covered, the lower number first");
      // Behind {n} and before a plus sign behind {...}, both are quantifiers of their own.
      if (!(interval && repeat.least == repeat.most) && eat("?")) repeat.lazy = true;
      const bool keeps = !interval && !repeat.lazy && eat("+");
      if (can_be_empty(part) && repeat.most > 1) return refuse("repeats of what may be empty are not covered");
      repeat.parts.push_back(std::move(part));
      if (keeps) {
        MLC_ASSIGN(part, possessive(std::move(repeat)));
      } else {
        part = std::move(repeat);
      }
    }
  }

  bool read_interval(uint32_t& least, uint32_t& most) {
    const size_t before = at_;
    const auto number = [&](uint32_t& out) {
      const size_t begin = at_;
      for (out = 0; peek() >= '0' && peek() <= '9' && at_ - begin < 6; ++at_) out = out * 10 + static_cast<uint32_t>(peek() - '0');
      return at_ > begin;
    };
    if (eat("{")) {
      const bool has_least = number(least);
      most = least;
      bool is = has_least;
      if (eat(",")) {
        const bool has_most = number(most);
        if (!has_most) most = kEndless;
        is = has_least || has_most;
      }
      if (is && eat("}")) return true;
    }
    return at_ = before, false;
  }

  static bool can_be_empty(const Node& node) {
    switch (node.kind) {
      case Node::Kind::Set: return false;
      case Node::Kind::Ahead:
      case Node::Kind::Behind: return true;
      case Node::Kind::Row: return std::all_of(node.parts.begin(), node.parts.end(), can_be_empty);
      case Node::Kind::Either: return std::any_of(node.parts.begin(), node.parts.end(), can_be_empty);
      case Node::Kind::Repeat: return node.least == 0 || can_be_empty(node.parts.front());
    }
    return true;
  }

  // Behind a backslash: a class or a code point.
  Result<CodePoints> escape() {
    CodePoints out;
    const char c = peek();
    const auto negative = static_cast<char>(c | 32);
    if (shorthand_code_points(negative, out)) return ++at_, c == negative ? out : out.others();
    if (c == 'p' || c == 'P') return property();
    ++at_;
    static constexpr std::pair<char, char> kControls[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', '\x1b'}};
    for (const auto& [letter, control] : kControls)
      if (c == letter) return CodePoints(static_cast<uint8_t>(control), static_cast<uint8_t>(control));
    if (c == 'x' || c == 'u') return coded(c == 'u');
    if ((c >= '0' && c <= '9') || (negative >= 'a' && negative <= 'z')) return refuse("this escape is not covered");
    --at_;
    MLC_ASSIGN(const uint32_t literal, code_point());
    return CodePoints(literal, literal);
  }

  Result<CodePoints> coded(bool four) {
    const bool braces = !four && eat("{");
    uint32_t value = 0;
    size_t digits = 0;
    const size_t most = braces ? 6 : four ? 4 : 2;
    for (; digits < most && more(); ++digits, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (digits == 0 || (four && digits != 4) || (braces && !eat("}")) || value >= kCodePoints) return wrong("no code point");
    if (!four && !braces && value >= 0x80) return refuse("bytes that are no character are not covered; write \\x{...}");
    return CodePoints(value, value);
  }

  Result<CodePoints> property() {
    bool negative = peek() == 'P';
    ++at_;
    if (!eat("{")) return refuse("\\p without braces is not covered");
    if (eat("^")) negative = !negative;
    const size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) return wrong("\\p without end");
    const std::string_view name = text_.substr(at_, end - at_);
    CodePoints out;
    if (name.size() > 64 || !named_code_points(name, out))
      return Status(Code::Unsupported, "{}: '{}' is no property that is known behind \\p; known are general categories, scripts, White_Space, Any", path_,
                    name.substr(0, 64));
    at_ = end + 1;
    return negative ? out.others() : out;
  }

  // Behind "[": up to "]".
  Result<CodePoints> char_class(Flags flags, unsigned depth) {
    if (depth > kMaxPatternDepth) return refuse("more than 64 groups in each other");
    const bool negative = eat("^");
    std::optional<CodePoints> before;  // of "&&"
    CodePoints out;
    const auto close = [&] {
      if (before) out = before->both(out);
    };
    for (bool first = true;; first = false) {
      if (!more()) return wrong("a class without end");
      if (!first && eat("]")) break;
      if (eat("&&")) {
        close();
        before = std::exchange(out, {});
        continue;
      }
      if (text_.substr(at_).starts_with("[:")) return refuse("classes such as [:alpha:] are not covered; write \\p{...}");
      if (eat("[")) {
        MLC_ASSIGN(const CodePoints inner, char_class(flags, depth + 1));
        out.add(inner);
        continue;
      }
      MLC_ASSIGN(const CodePoints one, item());
      const size_t rest = text_.size() - at_;
      if (!is_single(one) || peek() != '-' || rest < 2 || text_[at_ + 1] == ']') {
        out.add(one);
        continue;
      }
      ++at_;
      MLC_ASSIGN(const CodePoints last, item());
      if (!is_single(last) || last.ranges()[0].first < one.ranges()[0].first) return wrong("a range whose end is no character or stands before its begin");
      out.add(one.ranges()[0].first, last.ranges()[0].first);
    }
    close();
    if (flags.any_case && !any_case(out)) return refuse("a letter that is several in another case is not covered where case does not count");
    return negative ? out.others() : out;
  }
  static bool is_single(const CodePoints& set) { return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last; }
  Result<CodePoints> item() {
    if (eat("\\b")) return CodePoints('\b', '\b');
    if (eat("\\")) return escape();
    MLC_ASSIGN(const uint32_t c, code_point());
    return CodePoints(c, c);
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

// Places from the end of the pattern to its begin: each gets the one that follows it.
class Placer {
 public:
  using Kind = PatternPlace::Kind;

  uint32_t add(PatternPlace place) {
    ranges_ += place.set.ranges().size();
    if (pattern_.places.size() < kMaxPlaces && ranges_ <= kMostRanges) pattern_.places.push_back(std::move(place));
    else full_ = true;
    return static_cast<uint32_t>(pattern_.places.size() - 1);
  }
  bool full() const { return full_; }

  uint32_t put(const Node& node, uint32_t next) {
    if (full_) return next;
    switch (node.kind) {
      case Node::Kind::Set: return add({Kind::Set, node.set, false, next});
      case Node::Kind::Ahead: return add({Kind::Ahead, node.set, node.edge, next});
      case Node::Kind::Behind: return add({Kind::Behind, node.set, node.edge, next});
      case Node::Kind::Row:
        for (size_t i = node.parts.size(); i-- > 0;) next = put(node.parts[i], next);
        return next;
      case Node::Kind::Either: {
        uint32_t first = put(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;) first = fork(put(node.parts[i], next), first, false);
        return first;
      }
      case Node::Kind::Repeat: return repeat(node, next);
    }
    return next;
  }

  Pattern take(uint32_t begin) {
    pattern_.begin = begin;
    return std::move(pattern_);
  }

 private:
  uint32_t fork(uint32_t first, uint32_t other, bool lazy) {
    return lazy ? add({Kind::Fork, {}, false, other, first}) : add({Kind::Fork, {}, false, first, other});
  }

  uint32_t repeat(const Node& node, uint32_t next) {
    const Node& part = node.parts.front();
    if (node.most == kEndless) {
      const uint32_t loop = fork(next, next, node.lazy);
      const uint32_t body = put(part, loop);
      if (!full_) (node.lazy ? pattern_.places[loop].other : pattern_.places[loop].next) = body;
      next = loop;
    } else {
      const uint32_t after = next;
      for (uint32_t i = node.least; i < node.most && !full_; ++i) next = fork(put(part, next), after, node.lazy);
    }
    for (uint32_t i = 0; i < node.least && !full_; ++i) next = put(part, next);
    return next;
  }

  Pattern pattern_;
  size_t ranges_ = 0;
  bool full_ = false;
};

bool can_be_empty(const Pattern& pattern) {
  std::vector<bool> seen(pattern.places.size());
  std::vector<uint32_t> todo{pattern.begin};
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const PatternPlace& place = pattern.places[at];
    if (place.kind == PatternPlace::Kind::End) return true;
    if (place.kind == PatternPlace::Kind::Set) continue;
    todo.push_back(place.next);
    if (place.kind == PatternPlace::Kind::Fork) todo.push_back(place.other);
  }
  return false;
}

}  // namespace

Result<Pattern> parse_pattern(std::string_view text, const std::string& path) {
  MLC_ASSIGN(const Node node, Parser(text, path).run());
  Placer placer;
  const uint32_t end = placer.add({PatternPlace::Kind::End, {}});
  const uint32_t begin = placer.put(node, end);
  if (placer.full()) return Status(Code::Unsupported, "{}: the pattern has more than {} places with all its repeats, or {} ranges of characters", path, uint64_t{kMaxPlaces}, uint64_t{kMostRanges});
  Pattern pattern = placer.take(begin);
  if (can_be_empty(pattern)) return Status(Code::Unsupported, "{}: patterns that match the empty text are not covered", path);
  return pattern;
}

}  // namespace mlc::text
