// Text out of pieces: compose("'{}' has {} inputs", name, count).
//
// Every {} of the pattern stands for the next argument, a text or an integer. Messages make up much of what the runtime
// consists of; a chain of std::string + std::to_string takes three times the code of one call.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mlc {

// An argument of compose(): a number, or a text that lives at least as long as the call. Two words, because every call
// makes some.
struct Piece {
  // What stands in `size` for what has none.
  static constexpr uint64_t kUnsigned = UINT64_MAX;
  static constexpr uint64_t kSigned = UINT64_MAX - 1;
  static constexpr uint64_t kTerminated = UINT64_MAX - 2;  // a text that ends with a zero byte

  Piece(const std::string& t) : text(t.data()), size(t.size()) {}
  Piece(std::string_view t) : text(t.data()), size(t.size()) {}
  Piece(const char* t) : text(t), size(kTerminated) {}
  template <std::unsigned_integral T>
  Piece(T n) : number(n), size(kUnsigned) {}
  template <std::signed_integral T>
  Piece(T n) : number(static_cast<uint64_t>(int64_t{n})), size(kSigned) {}
  Piece(bool) = delete;
  Piece(char) = delete;

  union {
    const char* text;
    uint64_t number;
  };
  uint64_t size;
};

using Pieces = std::initializer_list<Piece>;

// As many {} in `pattern` as there are pieces.
[[nodiscard]] std::string compose_pieces(const char* pattern, Pieces pieces);

template <class... Args>
[[nodiscard]] inline std::string compose(const char* pattern, const Args&... args) {
  return compose_pieces(pattern, {args...});
}

}  // namespace mlc
