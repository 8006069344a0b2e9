// Words that were made to tokens before. The tokens of a word depend on nothing but its code points.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "schema/text/chars.h"

namespace mlc::text {

// A token of a word: its first and its last code point there, and how much white space it has in front and at the end.
struct WordToken {
  uint32_t id, first, last;
  uint16_t lead, trail;
};

// A table of one size: a word is in one of two slots, and one that is kept drives out what was there. So no choice of words
// makes a search long. Only short words of few tokens are kept, nearly all that come again.
class WordCache {
 public:
  static constexpr uint32_t kMostBytes = 31, kMostTokens = 4;

  // The UTF-8 of a word and, in the last byte, its length. The same key is the same word.
  struct Key {
    std::array<uint64_t, 4> words{};

    // False: the word is too long to be kept.
    bool assign(std::span<const Char> word) {
      if (word.size() > kMostBytes) return false;
      uint8_t bytes[32] = {};
      uint32_t size = 0;
      for (const Char& c : word) {
        if (c.code_point < 0x80) {
          if (size == kMostBytes) return false;
          bytes[size++] = static_cast<uint8_t>(c.code_point);
          continue;
        }
        uint8_t more[4];
        const uint32_t count = encode_utf8(c.code_point, more);
        if (size + count > kMostBytes) return false;
        for (uint32_t i = 0; i < count; ++i) bytes[size++] = more[i];
      }
      bytes[31] = static_cast<uint8_t>(size);
      std::memcpy(words.data(), bytes, sizeof bytes);
      return true;
    }
    bool operator==(const Key&) const = default;
    uint32_t slot() const {
      uint64_t hash = 0;
      for (const uint64_t word : words) hash = ((hash ^ word) * 0x9E3779B97F4A7C15) ^ hash >> 29;
      return static_cast<uint32_t>(hash >> 40) & (kSlots - 1);
    }
  };

  // Puts the tokens of that word behind `out`; false if they are not known.
  bool find(const Key& key, std::span<const Char> word, uint32_t number, std::vector<Token>& out) const {
    if (slots_.empty()) return false;
    const uint32_t slot = key.slot();
    const Slot& kept = slots_[slot].key == key ? slots_[slot] : slots_[slot ^ 1];
    if (!(kept.key == key)) return false;
    for (const Small& t : kept.tokens) {
      if (t.id == kNone) break;
      out.push_back({t.id, word[t.first].begin, word[t.last].end, number, t.lead, t.trail});
    }
    return true;
  }

  void keep(const Key& key, std::span<const WordToken> tokens) {
    if (tokens.size() > kMostTokens) return;
    for (const WordToken& t : tokens)
      if (t.lead > 255 || t.trail > 255) return;
    if (slots_.empty()) slots_.resize(kSlots);
    // The one that is driven out of the first slot has the second.
    const uint32_t slot = key.slot();
    slots_[slot ^ 1] = slots_[slot];
    Slot& kept = slots_[slot];
    kept = {key, {}};
    for (size_t i = 0; i < tokens.size(); ++i) {
      const WordToken& t = tokens[i];
      kept.tokens[i] = {t.id, static_cast<uint8_t>(t.first), static_cast<uint8_t>(t.last), static_cast<uint8_t>(t.lead), static_cast<uint8_t>(t.trail)};
    }
  }

 private:
  static constexpr uint32_t kSlots = 1u << 13;
  struct Small {
    uint32_t id = kNone;
    uint8_t first = 0, last = 0, lead = 0, trail = 0;
  };
  struct Slot {
    Key key;  // all 0: free, for no word is empty
    std::array<Small, kMostTokens> tokens;
  };
  std::vector<Slot> slots_;
};

}  // namespace mlc::text
