#include "packager/compile/expand/automaton.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>

namespace mlc::compile {
namespace {

constexpr size_t kMaxStates = 4096;

// What is known of a place between two bytes.
struct Place {
  bool start = false, end = false, boundary = false, known = false;
};
// Everything that is reached without a byte, in order; while a place is not known, over edges without a condition only.
std::vector<uint32_t> closed(const Automaton& a, std::vector<uint32_t> open, Place at) {
  std::vector<bool> is_seen(a.nodes.size());
  for (const uint32_t n : open) is_seen[n] = true;
  const auto is_free = [&](Edge::Kind kind) {
    switch (kind) {
      case Edge::Kind::Byte: return false;
      case Edge::Kind::Empty: return true;
      case Edge::Kind::AtStart: return at.known && at.start;
      case Edge::Kind::AtEnd: return at.known && at.end;
      case Edge::Kind::Boundary: return at.known && at.boundary;
      case Edge::Kind::NoBoundary: return at.known && !at.boundary;
    }
    return false;
  };
  while (!open.empty()) {
    const uint32_t n = open.back();
    open.pop_back();
    for (const Edge& e : a.nodes[n])
      if (is_free(e.kind) && !is_seen[e.to]) {
        is_seen[e.to] = true;
        open.push_back(e.to);
      }
  }
  std::vector<uint32_t> all;
  for (uint32_t n = 0; n < a.nodes.size(); ++n)
    if (is_seen[n]) all.push_back(n);
  return all;
}

bool is_word(unsigned b) { return (b >= '0' && b <= '9') || (b >= 'A' && b <= 'Z') || b == '_' || (b >= 'a' && b <= 'z'); }

// A state is what may be next before the next byte is known, and what came before it.
struct State {
  std::vector<uint32_t> nodes;
  bool at_start = false, behind_word = false;
  auto operator<=>(const State&) const = default;
};

}  // namespace

Result<std::vector<int32_t>> table_of(const Automaton& a) {
  // Bytes that no edge tells apart are of one class.
  std::vector<bool> starts(257, false);
  starts[0] = true;
  for (const auto& edges : a.nodes)
    for (const Edge& e : edges)
      if (e.kind == Edge::Kind::Byte) starts[e.low] = starts[e.high + 1u] = true;
  for (unsigned b = 1; a.words && b < 256; ++b)
    if (is_word(b) != is_word(b - 1)) starts[b] = true;
  std::vector<int32_t> class_of(256);
  std::vector<uint8_t> sample;
  for (unsigned b = 0; b < 256; ++b) {
    if (starts[b]) sample.push_back(static_cast<uint8_t>(b));
    class_of[b] = static_cast<int32_t>(sample.size() - 1);
  }
  std::vector<State> states;
  std::map<State, int32_t> numbers;
  std::vector<int32_t> ends, next(sample.size(), 0);
  const auto number_of = [&](State state) {
    const auto [found, is_new] = numbers.emplace(state, static_cast<int32_t>(states.size()));
    if (is_new) {
      const auto last = closed(a, state.nodes, {state.at_start, true, state.behind_word, true});
      ends.push_back(std::binary_search(last.begin(), last.end(), a.whole.out) ? 1 : 0);
      states.push_back(std::move(state));
    }
    return found->second;
  };
  number_of({});
  number_of({closed(a, {a.whole.in}, {}), true, false});
  for (size_t s = 1; s < states.size(); ++s) {
    if (states.size() > kMaxStates)
      return Status(Code::Resource, "takes more than " + std::to_string(kMaxStates) + " states");
    for (const uint8_t b : sample) {
      const bool word = a.words && is_word(b);
      const std::vector<uint32_t> here =
          a.conditions ? closed(a, states[s].nodes, {states[s].at_start, false, states[s].behind_word != word, true}) : states[s].nodes;
      std::vector<uint32_t> reached;
      for (const uint32_t n : here)
        for (const Edge& e : a.nodes[n])
          if (e.kind == Edge::Kind::Byte && e.low <= b && b <= e.high) reached.push_back(e.to);
      if (reached.empty()) next.push_back(0);
      else next.push_back(number_of({closed(a, std::move(reached), {}), false, word}));
    }
  }
  std::vector<int32_t> out{static_cast<int32_t>(states.size()), static_cast<int32_t>(sample.size())};
  for (const auto* part : {&class_of, &ends, &next}) out.insert(out.end(), part->begin(), part->end());
  return out;
}

}  // namespace mlc::compile
