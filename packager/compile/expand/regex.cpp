#include "packager/compile/expand/regex.h"

#include <algorithm>
#include <utility>

#include "packager/compile/expand/automaton.h"
#include "packager/compile/expand/character_classes.h"

namespace mlc::compile {
namespace {

constexpr size_t kMaxNodes = 1 << 16, kMaxDepth = 256;
constexpr int kMaxRepeat = 1000;  // as in RE2

void append(Ranges& to, const Ranges& more) { to.insert(to.end(), more.begin(), more.end()); }

// Groups within groups are read by recursion, to a limited depth.
class Compiler {
 public:
  explicit Compiler(const std::string& pattern) : p_(pattern) {}

  Result<std::vector<int32_t>> run(bool anywhere) {
    const auto whole = alternatives(0);
    if (status_.ok() && at_ < p_.size()) fail("an unexpected ')'");
    if (status_.ok() && anywhere && automaton_.conditions) unsupported("a condition on what is beside a piece");
    if (!status_.ok()) return std::move(status_).note("in the pattern '" + p_ + "'");
    automaton_.whole = whole;
    auto table = table_of(automaton_);
    if (!table.ok()) return Status(table.status().code, "the pattern '" + p_ + "' " + table.status().message);
    return table;
  }

 private:
  void fail(const std::string& what, Code code = Code::Malformed) {
    if (status_.ok()) status_ = Status(code, what + " at " + std::to_string(at_));
  }
  void unsupported(const std::string& what) { fail(what + " is not supported", Code::Unsupported); }
  bool done() const { return !status_.ok() || at_ >= p_.size(); }
  bool accept(std::string_view s) {
    if (std::string_view(p_).substr(std::min(at_, p_.size()), s.size()) != s) return false;
    at_ += s.size();
    return true;
  }

  uint32_t node() {
    if (automaton_.nodes.size() >= kMaxNodes) {
      fail("too large", Code::Resource);
      return 0;
    }
    automaton_.nodes.emplace_back();
    return static_cast<uint32_t>(automaton_.nodes.size() - 1);
  }
  void link(uint32_t from, uint32_t to, Edge::Kind kind = Edge::Kind::Empty) { automaton_.nodes[from].push_back({kind, 0, 0, to}); }
  void byte(uint32_t from, uint32_t to, uint32_t low, uint32_t high) {
    automaton_.nodes[from].push_back({Edge::Kind::Byte, static_cast<uint8_t>(low), static_cast<uint8_t>(high), to});
  }
  Part empty() {
    const uint32_t n = node();
    return {n, n};
  }
  Part joined(Part a, Part b) {
    link(a.out, b.in);
    return {a.in, b.out};
  }

  // Sequences of bytes for a range of code points with as many bytes, split until each byte has a range of its own.
  void utf8(uint32_t from, uint32_t to, uint32_t low, uint32_t high) {
    static constexpr uint32_t kLimits[] = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};
    for (uint32_t limit : kLimits)
      if (low <= limit && high > limit) {
        utf8(from, to, low, limit);
        utf8(from, to, limit + 1, high);
        return;
      }
    const unsigned more = high <= 0x7F ? 0 : high <= 0x7FF ? 1 : high <= 0xFFFF ? 2 : 3;
    for (unsigned k = 1; k <= more; ++k) {
      const uint32_t mask = (1u << (6 * k)) - 1;
      if ((low & ~mask) == (high & ~mask)) continue;
      if ((low & mask) != 0) {
        utf8(from, to, low, low | mask);
        utf8(from, to, (low | mask) + 1, high);
        return;
      }
      if ((high & mask) != mask) {
        utf8(from, to, low, (high & ~mask) - 1);
        utf8(from, to, high & ~mask, high);
        return;
      }
    }
    static constexpr uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    uint32_t here = from;
    for (unsigned k = more + 1; k-- > 0;) {
      const uint32_t mark = k == more ? kFirst[more] : 0x80, mask = k == more ? 0xFF : 0x3F;
      const uint32_t next = k == 0 ? to : node();
      byte(here, next, mark | ((low >> (6 * k)) & mask), mark | ((high >> (6 * k)) & mask));
      here = next;
    }
  }
  Part set(Ranges ranges) {
    if (fold_case_) ranges = in_both_cases(std::move(ranges));
    const Part part{node(), node()};
    for (const Range& r : sorted(std::move(ranges)))
      if (status_.ok()) utf8(part.in, part.out, r.first, r.second);
    return part;
  }

  uint32_t code_point() {
    const auto lead = static_cast<uint8_t>(p_[at_++]);
    const unsigned more = lead < 0x80 ? 0 : lead < 0xC2 ? 4 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : lead < 0xF5 ? 3 : 4;
    if (more == 4 || at_ + more > p_.size()) {
      fail("no UTF-8");
      return 0;
    }
    uint32_t c = more == 0 ? lead : lead & (0x3Fu >> more);
    for (unsigned k = 0; k < more; ++k) c = c << 6 | (static_cast<uint8_t>(p_[at_++]) & 0x3Fu);
    return c;
  }
  // What follows a backslash: a class, or one code point.
  Ranges escape() {
    if (done()) {
      fail("a backslash at the end");
      return {};
    }
    if (const auto named = named_class(p_[at_])) {
      ++at_;
      return *named;
    }
    const uint32_t c = code_point();
    static constexpr std::string_view kLetters = "tnrfva", kMeaning = "\t\n\r\f\v\a";
    if (c < 128 && kLetters.find(static_cast<char>(c)) != kLetters.npos) {
      const auto m = static_cast<uint32_t>(kMeaning[kLetters.find(static_cast<char>(c))]);
      return {{m, m}};
    }
    if (c == 'x') {
      const bool braces = accept("{");
      uint32_t value = 0;
      unsigned digits = 0;
      for (; at_ < p_.size() && std::isxdigit(static_cast<unsigned char>(p_[at_])) && digits < (braces ? 6u : 2u); ++digits)
        value = value * 16 + static_cast<uint32_t>(std::stoi(std::string(1, p_[at_++]), nullptr, 16));
      if (digits == 0 || (!braces && digits != 2) || (braces && !accept("}")) || value > kLastCodePoint) fail("a wrong \\x");
      return {{value, value}};
    }
    if (c < 128 && std::isalnum(static_cast<int>(c))) unsupported(std::string("\\") + static_cast<char>(c));
    return {{c, c}};
  }
  Part bracket() {
    const bool negative = accept("^");
    Ranges ranges;
    for (bool first = true; first || !accept("]"); first = false) {
      if (done()) {
        fail("a class without ']'");
        return empty();
      }
      if (accept("[:")) {
        const bool inverted = accept("^");
        const size_t end = p_.find(":]", at_);
        const auto found = end == p_.npos ? posix_classes().end() : posix_classes().find(p_.substr(at_, end - at_));
        if (found == posix_classes().end()) {
          fail("no class of that name");
          return empty();
        }
        append(ranges, inverted ? inverse(found->second) : found->second);
        at_ = end + 2;
        continue;
      }
      const Ranges low = accept("\\") ? escape() : Ranges{one()};
      if (low.size() != 1 || low[0].first != low[0].second || at_ + 1 >= p_.size() || p_[at_] != '-' || p_[at_ + 1] == ']') {
        append(ranges, low);
        continue;
      }
      ++at_;
      const Ranges high = accept("\\") ? escape() : Ranges{one()};
      if (high.size() != 1 || high[0].first != high[0].second || high[0].first < low[0].first) {
        fail("a wrong range");
        return empty();
      }
      ranges.push_back({low[0].first, high[0].first});
    }
    if (fold_case_ && negative) {  // what is left out is so in both cases
      const bool fold = std::exchange(fold_case_, false);
      const Part part = set(inverse(in_both_cases(std::move(ranges))));
      fold_case_ = fold;
      return part;
    }
    return set(negative ? inverse(ranges) : ranges);
  }
  Range one() {
    const uint32_t c = code_point();
    return {c, c};
  }

  Part alternatives(size_t depth) {
    if (depth > kMaxDepth) {
      fail("groups are nested too deeply", Code::Resource);
      return empty();
    }
    const bool fold = fold_case_, dot = dot_all_;  // flags hold to the end of the group
    const Part all{node(), node()};
    do {
      Part row = empty();
      while (!done() && p_[at_] != '|' && p_[at_] != ')') row = joined(row, repeated(depth));
      link(all.in, row.in);
      link(row.out, all.out);
    } while (status_.ok() && accept("|"));
    fold_case_ = fold, dot_all_ = dot;
    return all;
  }

  // One atom with what is said about how often. Copies are made by reading it again.
  Part repeated(size_t depth) {
    const size_t begin = at_;
    const bool fold = fold_case_, dot = dot_all_;
    Part part = atom(depth);
    for (unsigned count = 0; !done(); ++count) {
      int least = 0, most = -1;
      const size_t end = at_;
      if (accept("*")) least = 0;
      else if (accept("+")) least = 1;
      else if (accept("?")) most = 1;
      else if (!braces(least, most)) break;
      if (count > 0) {
        fail("a repetition of a repetition");
        break;
      }
      accept("?");  // lazy: the same whole texts
      const size_t behind = at_;
      const auto again = [&] {
        at_ = begin, fold_case_ = fold, dot_all_ = dot;
        const Part copy = atom(depth);
        if (at_ != end) fail("a repetition of flags");
        at_ = behind;
        return copy;
      };
      if (most == 1 && least == 0) {
        part = optional(part);
      } else if (most < 0 && least <= 1) {
        link(part.out, part.in);
        part = least == 0 ? optional(part) : Part{part};
        const uint32_t out = node();
        link(part.out, out);
        part.out = out;
      } else {
        Part all = empty();
        for (int k = 0; k < std::max(least, most) && status_.ok(); ++k) all = joined(all, k < least ? again() : optional(again()));
        if (most < 0) {
          Part more = again();
          link(more.out, more.in);
          all = joined(all, optional(more));
        }
        part = all;
      }
    }
    return part;
  }
  Part optional(Part p) {
    const Part around{node(), node()};
    link(around.in, p.in);
    link(p.out, around.out);
    link(around.in, around.out);
    return around;
  }
  // {m}, {m,} or {m,n}; anything else behind a brace is meant literally.
  bool braces(int& least, int& most) {
    size_t k = at_;
    const auto number = [&](int& out) {
      const size_t from = k;
      int64_t v = 0;
      for (; k < p_.size() && p_[k] >= '0' && p_[k] <= '9'; ++k) v = std::min<int64_t>(v * 10 + (p_[k] - '0'), 1 << 20);
      out = static_cast<int>(v);
      return k > from;
    };
    if (k >= p_.size() || p_[k++] != '{' || !number(least)) return false;
    most = least;
    if (k < p_.size() && p_[k] == ',') {
      ++k;
      if (!number(most)) most = -1;
    }
    if (k >= p_.size() || p_[k] != '}') return false;
    at_ = k + 1;
    if (least > kMaxRepeat || most > kMaxRepeat || (most >= 0 && most < least)) fail("a wrong number of repetitions");
    return true;
  }

  Part atom(size_t depth) {
    if (accept("(")) return group(depth);
    if (accept("[")) return bracket();
    if (accept(".")) return set(dot_all_ ? Ranges{{0, kLastCodePoint}} : inverse({{'\n', '\n'}}));
    if (accept("^") || accept("\\A")) return assertion(Edge::Kind::AtStart);
    if (accept("$") || accept("\\z")) return assertion(Edge::Kind::AtEnd);
    if (accept("\\b")) return assertion(Edge::Kind::Boundary);
    if (accept("\\B")) return assertion(Edge::Kind::NoBoundary);
    if (accept("\\Q")) {
      Part row = empty();
      while (!done() && !accept("\\E")) row = joined(row, set({one()}));
      return row;
    }
    if (accept("\\")) return set(escape());
    if (p_[at_] == '*' || p_[at_] == '+' || p_[at_] == '?') {
      fail("nothing to repeat");
      return empty();
    }
    return set({one()});
  }
  Part assertion(Edge::Kind kind) {
    const Part part{node(), node()};
    link(part.in, part.out, kind);
    automaton_.conditions = true;
    automaton_.words = automaton_.words || kind == Edge::Kind::Boundary || kind == Edge::Kind::NoBoundary;
    return part;
  }
  Part group(size_t depth) {
    if (accept("?")) {
      if (accept("P<") || (at_ + 1 < p_.size() && p_[at_] == '<' && std::isalpha(static_cast<unsigned char>(p_[at_ + 1])))) {
        at_ = p_.find('>', at_);
        if (at_ == p_.npos) {
          at_ = p_.size();
          fail("a name without '>'");
          return empty();
        }
        ++at_;
      } else {
        bool on = true, fold = fold_case_, dot = dot_all_;
        for (; !done() && p_[at_] != ':' && p_[at_] != ')'; ++at_) {
          if (p_[at_] == '-') on = false;
          else if (p_[at_] == 'i') fold = on;
          else if (p_[at_] == 's') dot = on;
          else if (p_[at_] != 'U') unsupported(std::string("(?") + p_[at_]);
        }
        if (accept(")")) {
          fold_case_ = fold, dot_all_ = dot;
          return empty();
        }
        accept(":");
        std::swap(fold, fold_case_), std::swap(dot, dot_all_);
        const Part inner = alternatives(depth + 1);
        fold_case_ = fold, dot_all_ = dot;
        if (!accept(")")) fail("a group without ')'");
        return inner;
      }
    }
    const Part inner = alternatives(depth + 1);
    if (!accept(")")) fail("a group without ')'");
    return inner;
  }

  const std::string p_;
  size_t at_ = 0;
  bool fold_case_ = false, dot_all_ = false;
  Status status_;
  Automaton automaton_;
};

}  // namespace

Result<std::vector<int32_t>> table_of_pattern(const std::string& pattern, bool anywhere) { return Compiler(pattern).run(anywhere); }

}  // namespace mlc::compile
