// What the steps of a tokenizer work on: code points, each with the part of the original text that it came from.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "schema/text/compiled.h"

namespace mlc::text {

// Positions are code points of the original text.
struct Char {
  uint32_t code_point, begin, end;
};

// A row of code points that no step may grow beyond its bound.
class Chars {
 public:
  explicit Chars(uint64_t most = 0) : most_(most) {}
  // As new, in the memory that it has.
  void reset(uint64_t most) {
    chars_.clear();
    most_ = most, overflowed_ = gave_up_ = false;
  }

  size_t size() const { return chars_.size(); }
  const Char& operator[](size_t i) const { return chars_[i]; }
  const Char* data() const { return chars_.data(); }
  size_t capacity() const { return chars_.capacity(); }
  void clear() { chars_.clear(); }
  void reserve(uint64_t count) { chars_.reserve(static_cast<size_t>(count < most_ ? count : most_)); }
  // Nothing is added beyond the bound, which `overflowed` remembers.
  void add(Char c) {
    if (chars_.size() < most_) chars_.push_back(c);
    else overflowed_ = true;
  }
  void add(std::span<const Char> chars) {
    if (chars.size() <= most_ - chars_.size()) chars_.insert(chars_.end(), chars.begin(), chars.end());
    else overflowed_ = true;
  }
  // Each code point by itself: `change` answers false where it is removed.
  template <class Change>
  void rewrite(Change change) {
    size_t count = 0;
    for (Char c : chars_)
      if (change(c)) chars_[count++] = c;
    chars_.resize(count);
  }
  uint64_t room() const { return most_ - chars_.size(); }
  void overflow() { overflowed_ = true; }
  bool overflowed() const { return overflowed_; }
  // A pattern took too many steps: nothing is added any more.
  void give_up() { overflowed_ = gave_up_ = true; }
  bool gave_up() const { return gave_up_; }
  void swap(Chars& other) {
    chars_.swap(other.chars_);
    std::swap(overflowed_, other.overflowed_);
    std::swap(gave_up_, other.gave_up_);
  }

 private:
  std::vector<Char> chars_;
  uint64_t most_;
  bool overflowed_ = false, gave_up_ = false;
};

// Some of the code points, which are one token already if `added` is not kNone: the number of the added token.
struct Piece {
  uint32_t begin, end;
  uint32_t added = kNone;
};

// A token of one text.
struct Token {
  uint32_t id, begin, end, word;
  uint32_t lead, trail;  // white space in front and at the end, where that is trimmed from offsets
};

// The UTF-8 of a code point: how many bytes.
inline uint32_t encode_utf8(uint32_t c, uint8_t (&out)[4]) {
  if (c < 0x80) return out[0] = static_cast<uint8_t>(c), 1;
  const auto tail = [c](int shift) { return static_cast<uint8_t>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x800) return out[0] = static_cast<uint8_t>(0xC0 | c >> 6), out[1] = tail(0), 2;
  if (c < 0x10000) return out[0] = static_cast<uint8_t>(0xE0 | c >> 12), out[1] = tail(6), out[2] = tail(0), 3;
  return out[0] = static_cast<uint8_t>(0xF0 | c >> 18), out[1] = tail(12), out[2] = tail(6), out[3] = tail(0), 4;
}

}  // namespace mlc::text
