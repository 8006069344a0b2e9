// Reading and writing of little-endian records with 8-byte alignment. Internal to signing/.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/checked.h"

namespace mlc::signing {

// A shrinking view: each read takes bytes from the front or fails and leaves the cursor unusable for the caller.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}
  size_t offset() const { return offset_; }
  bool done() const { return offset_ == bytes_.size(); }
  std::optional<Bytes> take(uint64_t len) {
    if (len > bytes_.size() - offset_) return std::nullopt;
    const Bytes taken = bytes_.subspan(offset_, static_cast<size_t>(len));
    offset_ += static_cast<size_t>(len);
    return taken;
  }
  template <class T>
  std::optional<T> integer() {
    const auto taken = take(sizeof(T));
    if (!taken) return std::nullopt;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(std::to_integer<T>((*taken)[i]) << (8 * i));
    return value;
  }
  std::optional<uint32_t> u32() { return integer<uint32_t>(); }
  std::optional<uint64_t> u64() { return integer<uint64_t>(); }
  // Skips to the next multiple of 8; false if a skipped byte is missing or not zero.
  bool padding() {
    const auto skipped = take((8 - offset_ % 8) % 8);
    return skipped && std::all_of(skipped->begin(), skipped->end(), [](std::byte b) { return b == std::byte{0}; });
  }

 private:
  Bytes bytes_;
  size_t offset_ = 0;
};

class Builder {
 public:
  size_t size() const { return bytes_.size(); }
  void put(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put(std::string_view text) { put(std::as_bytes(std::span(text.data(), text.size()))); }
  template <class T>
  void integer(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void u32(uint32_t value) { integer(value); }
  void u64(uint64_t value) { integer(value); }
  void padding() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace mlc::signing
