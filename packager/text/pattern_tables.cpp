#include <algorithm>
#include <map>

#include "packager/text/pattern.h"
#include "schema/text/compiled.h"

namespace mlc::text {
namespace {

using Kind = PatternPlace::Kind;
constexpr size_t kMaxSteps = 20'000'000;  // of all lists together, so that building ends soon

// Code points that no set of any pattern tells apart are one class.
class Classifier {
 public:
  explicit Classifier(const std::vector<NamedPattern>& patterns) {
    for (const NamedPattern& one : patterns)
      for (const PatternPlace& place : one.pattern.places) sets_.push_back(&place.set);
  }

  // A member of each class.
  std::vector<uint32_t> run(std::vector<uint16_t>& classes) {
    // Where membership changes, and in which sets.
    std::map<uint32_t, std::vector<uint32_t>> changes;
    changes[0];
    for (uint32_t s = 0; s < sets_.size(); ++s) {
      for (const auto& range : sets_[s]->ranges()) {
        changes[range.first].push_back(s);
        if (range.last + 1 < kCodePoints) changes[range.last + 1].push_back(s);
      }
    }
    std::map<std::vector<bool>, uint16_t> known;
    std::vector<uint32_t> members;
    std::vector<bool> in(sets_.size());
    classes.assign(kCodePoints, 0);
    for (auto at = changes.begin(); at != changes.end(); ++at) {
      for (const uint32_t s : at->second) in[s] = !in[s];
      const auto [found, is_new] = known.try_emplace(in, static_cast<uint16_t>(known.size()));
      if (is_new) members.push_back(at->first);
      if (members.size() > kMaxPatternClasses) break;
      const uint32_t end = std::next(at) == changes.end() ? kCodePoints : std::next(at)->first;
      std::fill(classes.begin() + at->first, classes.begin() + end, found->second);
    }
    return members;
  }

 private:
  std::vector<const CodePoints*> sets_;
};

// The states of a pattern: lists of places, best one first, at which only sets, what looks ahead, and the end stand.
class Builder {
 public:
  Builder(const NamedPattern& pattern, const std::vector<uint32_t>& members)
      : named_(pattern), places_(pattern.pattern.places), members_(members), edge_(static_cast<uint32_t>(members.size())), seen_(places_.size()) {}

  Result<PatternTables::Table> run() {
    // Of each class, and of the edge of the text, whether a place takes it.
    takes_.resize(places_.size());
    for (size_t p = 0; p < places_.size(); ++p) {
      for (const uint32_t member : members_) takes_[p].push_back(places_[p].set.has(member));
      takes_[p].push_back(places_[p].edge);
    }
    lists_.push_back({});  // state 0: no match is possible any more
    numbers_[{}] = 0;
    PatternTables::Table out;
    for (uint32_t before = 0; before <= edge_; ++before) {
      List list;
      begin();
      MLC_RETURN_IF_ERROR(follow(named_.pattern.begin, before, kNone, list));
      out.starts.push_back(number(std::move(list)));
    }
    for (size_t state = 0; state < lists_.size(); ++state) {
      for (uint32_t c = 0; c <= edge_; ++c) {
        MLC_ASSIGN(const uint16_t to, step(List(lists_[state]), c));
        out.next.push_back(to);
      }
      if (lists_.size() > kMaxPatternStates)
        return Status(Code::Unsupported, "{}: the pattern needs more than {} states", named_.path, uint64_t{kMaxPatternStates});
    }
    return out;
  }

 private:
  using List = std::vector<uint32_t>;

  void begin() { ++round_; }

  uint16_t number(List list) {
    const auto [at, is_new] = numbers_.try_emplace(list, static_cast<uint32_t>(lists_.size()));
    if (is_new) lists_.push_back(std::move(list));
    return static_cast<uint16_t>(std::min(at->second, kMaxPatternStates));
  }

  // All that is reached from a place without passing a code point. `ahead` is the class of what comes next, kNone while it is not known.
  Status follow(uint32_t from, uint32_t before, uint32_t ahead, List& out) {
    std::vector<uint32_t> todo{from};
    while (!todo.empty()) {
      const uint32_t at = todo.back();
      todo.pop_back();
      if (++steps_ > kMaxSteps) return Status(Code::Unsupported, "{}: the pattern is too complex", named_.path);
      if (seen_[at] == round_) continue;
      seen_[at] = round_;
      const PatternPlace& place = places_[at];
      switch (place.kind) {
        case Kind::Fork: todo.push_back(place.other), todo.push_back(place.next); break;
        case Kind::Behind:
          if (before == kNone) return Status(Code::Unsupported, "{}: looking behind is not covered where it comes after looking ahead", named_.path);
          if (takes_[at][before]) todo.push_back(place.next);
          break;
        case Kind::Ahead:
          if (ahead == kNone) out.push_back(at);
          else if (takes_[at][ahead]) todo.push_back(place.next);
          break;
        case Kind::Set:
        case Kind::End: out.push_back(at); break;
      }
    }
    return ok();
  }

  // Where a code point of that class, or the end, leads to; with the bit that a match ends before it.
  Result<uint16_t> step(const List& list, uint32_t c) {
    List now;
    begin();
    for (const uint32_t place : list) {
      if (places_[place].kind != Kind::Ahead) now.push_back(place);
      else if (takes_[place][c]) MLC_RETURN_IF_ERROR(follow(places_[place].next, kNone, c, now));
    }
    List next;
    uint16_t match = 0;
    begin();
    for (const uint32_t place : now) {
      if (places_[place].kind == Kind::End) {
        match = kPatternMatch;
        break;  // all that follows is worse
      }
      if (c != edge_ && takes_[place][c]) MLC_RETURN_IF_ERROR(follow(places_[place].next, c, kNone, next));
    }
    return static_cast<uint16_t>(number(std::move(next)) | match);
  }

  const NamedPattern& named_;
  const std::vector<PatternPlace>& places_;
  const std::vector<uint32_t>& members_;
  uint32_t edge_;
  std::vector<std::vector<bool>> takes_;
  std::vector<List> lists_;
  std::map<List, uint32_t> numbers_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  size_t steps_ = 0;
};

}  // namespace

Result<PatternTables> make_pattern_tables(const std::vector<NamedPattern>& patterns) {
  PatternTables out;
  if (patterns.empty()) return out;
  const std::vector<uint32_t> members = Classifier(patterns).run(out.classes);
  if (members.size() > kMaxPatternClasses)
    return Status(Code::Unsupported, "{}: the patterns of the tokenizer tell more than {} classes of characters apart", patterns.back().path,
                  kMaxPatternClasses);
  out.num_classes = static_cast<uint32_t>(members.size());
  for (const NamedPattern& one : patterns) {
    MLC_ASSIGN(auto table, Builder(one, members).run());
    out.tables.push_back(std::move(table));
  }
  return out;
}

}  // namespace mlc::text
