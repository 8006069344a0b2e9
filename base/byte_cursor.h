// The one way to take numbers and pieces out of bytes from outside, and the one way to put them together.
//
// A cursor reads from the front to the end. What lies behind the end reads as 0 or as no bytes, and is remembered: after
// the first such read the cursor has failed, nothing is left, and every further read answers the same. So a reader takes
// all fields of a record and asks once; it must ask before it acts on them. Lengths and offsets are of 64 bits and may
// have any value. The bytes are borrowed.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"

namespace mlc {

// The unsigned number that 1 to 8 bytes are.
[[nodiscard]] inline uint64_t load_uint(Bytes bytes, std::endian order = std::endian::little) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value = value << 8 | std::to_integer<uint64_t>(bytes[order == std::endian::big ? i : bytes.size() - 1 - i]);
  return value;
}

class ByteCursor {
 public:
  explicit ByteCursor(Bytes bytes, std::endian order = std::endian::little) : bytes_(bytes), order_(order) {}

  bool failed() const { return failed_; }
  uint64_t left() const { return bytes_.size() - at_; }
  bool done() const { return !failed_ && left() == 0; }
  uint64_t offset() const { return at_; }  // of what comes next, or of the read that failed
  Bytes rest() const { return bytes_.subspan(at_); }

  // The next `count` bytes.
  Bytes bytes(uint64_t count) {
    if (count > left()) return fail();
    return bytes_.subspan(std::exchange(at_, at_ + static_cast<size_t>(count)), static_cast<size_t>(count));
  }
  std::string_view text(uint64_t count) {
    const Bytes taken = bytes(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // A number of 1 to 8 bytes.
  uint64_t take_uint(unsigned width) { return load_uint(bytes(width), order_); }
  template <std::integral T>
  T take() {
    return static_cast<T>(take_uint(sizeof(T)));
  }
  void skip(uint64_t count) { (void)bytes(count); }
  // Fails as well if one of the bytes is not 0.
  void skip_zeros(uint64_t count) {
    const size_t begin = at_;
    const Bytes skipped = bytes(count);
    const auto wrong = std::find_if(skipped.begin(), skipped.end(), [](std::byte b) { return b != std::byte{0}; });
    if (wrong != skipped.end()) at_ = begin + static_cast<size_t>(wrong - skipped.begin()), fail();
  }
  // Zeros up to a multiple of `alignment` from where the cursor began.
  void skip_padding(size_t alignment) { skip_zeros((alignment - at_ % alignment) % alignment); }

  // Another cursor over the same bytes, from that offset of the first one.
  ByteCursor at(uint64_t offset) const {
    ByteCursor other = *this;
    other.at_ = 0;
    other.skip(offset);
    return other;
  }

 private:
  Bytes fail() {
    failed_ = true;
    bytes_ = bytes_.first(at_);
    return {};
  }

  Bytes bytes_;
  size_t at_ = 0;
  std::endian order_;
  bool failed_ = false;
};

// Bytes one after the other, numbers in little-endian order.
class ByteBuilder {
 public:
  size_t size() const { return bytes_.size(); }
  Bytes bytes() const { return bytes_; }
  ByteBuilder& put(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  ByteBuilder& put(std::string_view text) { return put(std::as_bytes(std::span(text.data(), text.size()))); }
  // The lowest `width` bytes of a number.
  ByteBuilder& put_uint(uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
    return *this;
  }
  // Zeros up to a multiple of `alignment`.
  void pad(size_t alignment) { bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace mlc
