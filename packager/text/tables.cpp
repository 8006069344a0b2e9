#include "packager/text/tables.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/byte_cursor.h"
#include "packager/text/unicode.h"

namespace mlc::text {
namespace {

template <class T>
void put_items(ByteBuilder& out, const std::vector<T>& items) {
  out.put(std::as_bytes(std::span(items)));
}

// Places the children of one state after the other, in the order of the states. Blocks that have been tried in vain some
// times are not looked at any more, so that the time stays linear.
class TrieBuilder {
 public:
  explicit TrieBuilder(std::vector<NamedNumber> texts) : texts_(std::move(texts)) {
    std::sort(texts_.begin(), texts_.end(), [](const NamedNumber& a, const NamedNumber& b) { return a.text < b.text; });
  }

  std::vector<TrieUnit> run() {
    if (texts_.empty()) return {};
    add_block();
    take(Trie::kRoot, kNone);
    todo_.push_back({Trie::kRoot, 0, texts_.size(), 0});
    for (size_t i = 0; i < todo_.size(); ++i) place(todo_[i]);
    return std::move(units_);
  }

 private:
  static constexpr uint32_t kTries = 64;  // in vain, until a block counts as full
  // The texts from `begin` to `end` begin alike with `depth` bytes.
  struct Range {
    uint32_t state;
    size_t begin, end, depth;
  };
  struct Child {
    uint8_t byte;
    size_t begin, end;
  };

  void add_block() {
    open_.push_back({static_cast<uint32_t>(units_.size()), 0});
    units_.resize(units_.size() + 256, TrieUnit{0, kNone, 0});
    used_.resize(units_.size(), false);
  }
  void take(uint32_t at, uint32_t parent) {
    used_[at] = true;
    units_[at].check = parent;
  }

  void place(Range range) {
    const auto at = [&](size_t i) { return static_cast<uint8_t>(texts_[i].text[range.depth]); };
    size_t i = range.begin;
    if (texts_[i].text.size() == range.depth) units_[range.state].value = texts_[i++].number + 1;
    children_.clear();
    while (i < range.end) {
      const size_t begin = i;
      while (i < range.end && at(i) == at(begin)) ++i;
      children_.push_back({at(begin), begin, i});
    }
    if (children_.empty()) return;
    const uint32_t base = free_base();
    units_[range.state].base = base;
    for (const Child& child : children_) {
      take(base ^ child.byte, range.state);
      todo_.push_back({base ^ child.byte, child.begin, child.end, range.depth + 1});
    }
  }

  bool fits(uint32_t base) const {
    return std::none_of(children_.begin(), children_.end(), [&](const Child& child) { return used_[base ^ child.byte]; });
  }
  uint32_t free_base() {
    for (size_t b = 0; b < open_.size();) {
      const uint32_t begin = open_[b].begin;
      for (uint32_t x = 0; x < 256; ++x)
        if (fits(begin + x)) return begin + x;
      if (++open_[b].misses < kTries) ++b;
      else open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(b));
    }
    add_block();
    return free_base_of_new();
  }
  uint32_t free_base_of_new() const { return open_.back().begin; }

  struct Open {
    uint32_t begin, misses;
  };
  std::vector<NamedNumber> texts_;
  std::vector<TrieUnit> units_;
  std::vector<bool> used_;
  std::vector<Open> open_;
  std::vector<Range> todo_;
  std::vector<Child> children_;
};

// Whether all find a place that a reader looks at.
bool place_all(const std::vector<Merge>& merges, std::vector<Merge>& slots) {
  for (const Merge& merge : merges) {
    uint32_t slot = merge_slot(merge.left, merge.right, static_cast<uint32_t>(slots.size())), probe = 0;
    while (probe < kProbes && slots[slot].left != kNone) ++probe, slot = (slot + 1) & static_cast<uint32_t>(slots.size() - 1);
    if (probe == kProbes) return false;
    slots[slot] = merge;
  }
  return true;
}

bool is_surrogate(uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }
bool is_syllable(uint32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }

// Vowels and last consonants of Hangul.
bool is_later_jamo(uint32_t c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2); }
// Those that are the second of a composition.
const std::set<uint32_t>& composing() {
  static const std::set<uint32_t> all = [] {
    std::set<uint32_t> out;
    for (const Composition& one : compositions()) out.insert(one.second);
    return out;
  }();
  return all;
}

uint16_t all_bits(uint32_t c, uint16_t mask) {
  if (is_surrogate(c)) return 0;
  uint16_t bits = class_bits(c);
  if ((mask & kDecomposed) && (is_syllable(c) || !decomposition(c).empty())) bits |= kDecomposed;
  if ((mask & kCompatible) && (is_syllable(c) || !compatible_decomposition(c).empty())) bits |= kCompatible;
  if ((mask & kComposing) && (is_later_jamo(c) || composing().contains(c))) bits |= kComposing;
  if ((mask & kLowered) && !small_letters(c).empty()) bits |= kLowered;
  if ((mask & kOrdered) && combining_class(c) != 0) bits |= kOrdered;
  return bits & mask;
}

}  // namespace

std::vector<std::byte> make_trie(std::vector<NamedNumber> texts) {
  ByteBuilder out;
  put_items(out, TrieBuilder(std::move(texts)).run());
  return out.take();
}

std::vector<std::byte> make_merges(const std::vector<Merge>& merges) {
  ByteBuilder out;
  if (merges.empty()) return {};
  for (size_t size = std::bit_ceil(merges.size() * 2);; size *= 2) {
    std::vector<Merge> slots(size, Merge{kNone, 0, 0, 0});
    if (!place_all(merges, slots)) continue;
    put_items(out, slots);
    return out.take();
  }
}

// About one bit of eight is set.
std::vector<std::byte> make_neighbours(const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  ByteBuilder out;
  std::vector<uint32_t> words(std::bit_ceil(std::clamp<size_t>(pairs.size() / 4, 32, kMaxTokenIds)));
  for (const auto& [left, right] : pairs) {
    const uint32_t bit = merge_slot(left, right, static_cast<uint32_t>(words.size() * 32));
    words[bit / 32] |= 1u << (bit % 32);
  }
  put_items(out, words);
  return out.take();
}

std::vector<std::byte> make_blocks(const std::vector<uint16_t>& numbers) {
  std::vector<uint16_t> index;
  std::map<std::vector<uint16_t>, uint16_t> blocks;
  ByteBuilder content;
  for (uint32_t begin = 0; begin < kCodePoints; begin += 256) {
    const std::vector<uint16_t> block(numbers.begin() + begin, numbers.begin() + begin + 256);
    const auto [found, is_new] = blocks.try_emplace(block, static_cast<uint16_t>(blocks.size()));
    if (is_new) put_items(content, block);
    index.push_back(found->second);
  }
  ByteBuilder out;
  put_items(out, index);
  return out.put(content.bytes()).take();
}

std::vector<std::byte> make_classes(uint16_t mask) {
  std::vector<uint16_t> bits(kCodePoints);
  for (uint32_t c = 0; c < kCodePoints; ++c) bits[c] = all_bits(c, mask);
  return make_blocks(bits);
}

std::vector<std::byte> make_patterns(const PatternTables& patterns) {
  if (patterns.tables.empty()) return {};
  ByteBuilder out;
  out.put_uint(patterns.tables.size(), 4).put_uint(patterns.num_classes, 4);
  for (const auto& table : patterns.tables) out.put_uint(table.next.size() / (patterns.num_classes + 1), 4);
  for (const auto& table : patterns.tables) put_items(out, table.starts), put_items(out, table.next);
  return out.take();
}

std::vector<std::byte> make_maps(uint16_t mask) {
  std::vector<MapEntry> maps[static_cast<size_t>(Map::Count)];
  std::vector<uint32_t> pool;
  const auto add = [&](Map map, uint32_t from, const std::vector<uint32_t>& to) {
    if (to.empty()) return;
    maps[static_cast<size_t>(map)].push_back({from, static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(to.size())});
    pool.insert(pool.end(), to.begin(), to.end());
  };
  for (uint32_t c = 0; c < kCodePoints; ++c) {
    if (is_surrogate(c)) continue;
    if ((mask & kDecomposed) && !is_syllable(c)) add(Map::Decompositions, c, decomposition(c));
    if ((mask & kCompatible) && !is_syllable(c)) add(Map::Compatible, c, compatible_decomposition(c));
    if (mask & kLowered) add(Map::SmallLetters, c, small_letters(c));
    if (mask & kOrdered)
      if (const uint32_t order = combining_class(c)) add(Map::CombiningClasses, c, {order});
  }
  if (mask & kComposing) {
    std::map<uint32_t, std::vector<uint32_t>> pairs;
    for (const Composition& one : compositions()) pairs[one.first].insert(pairs[one.first].end(), {one.second, one.both});
    for (const auto& [first, list] : pairs) add(Map::Compositions, first, list);
  }
  ByteBuilder out;
  for (const auto& map : maps) out.put_uint(map.size(), 4);
  for (const auto& map : maps) put_items(out, map);
  put_items(out, pool);
  return out.take();
}

}  // namespace mlc::text
