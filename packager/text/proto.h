// The fields of a message of Protocol Buffers, one after the other. Nothing is copied, nothing recurses.
#pragma once

#include <cstring>
#include <string_view>

namespace mlc::text {

class ProtoFields {
 public:
  explicit ProtoFields(std::string_view bytes) : rest_(bytes) {}

  // The next field; false at the end, or where the bytes are no message, which `failed` tells.
  bool next() {
    if (rest_.empty() || failed_) return false;
    uint64_t tag = 0;
    if (!varint(tag)) return false;
    number_ = tag >> 3, kind_ = static_cast<Kind>(tag & 7), value_ = 0, bytes_ = {};
    if (number_ == 0 || number_ >= 1u << 29) return fail();
    switch (kind_) {
      case Kind::Number: return varint(value_);
      case Kind::Eight: return take(8);
      case Kind::Four: return take(4);
      case Kind::Bytes: return varint(value_) && take(value_);
    }
    return fail();
  }
  bool failed() const { return failed_; }
  // Whether it is the field of that number, and of that kind; of another kind it is passed over, as readers of such messages do.
  bool is_number(uint64_t number) const { return number_ == number && kind_ == Kind::Number; }
  bool is_float(uint64_t number) const { return number_ == number && kind_ == Kind::Four; }
  bool is_bytes(uint64_t number) const { return number_ == number && kind_ == Kind::Bytes; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }
  float real() const {
    float out = 0;
    std::memcpy(&out, bytes_.data(), sizeof out);
    return out;
  }

 private:
  enum class Kind : uint8_t { Number = 0, Eight = 1, Bytes = 2, Four = 5 };

  bool fail() { return failed_ = true, false; }
  bool take(uint64_t count) {
    if (count > rest_.size()) return fail();
    bytes_ = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  bool varint(uint64_t& out) {
    out = 0;
    for (unsigned shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (shift < 64) out |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return true;
    }
    return fail();
  }

  std::string_view rest_, bytes_;
  uint64_t number_ = 0, value_ = 0;
  Kind kind_{};
  bool failed_ = false;
};

}  // namespace mlc::text
