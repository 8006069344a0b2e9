// Tables of texts without pointers, made by the compiler.
//
// A shared library relocates each pointer of a constant table when it is loaded: a std::string_view in one costs 40 bytes
// of the file besides its text. Here a text costs two.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mlc {

// Rows of texts, all in one piece: text k begins at begin[k] and ends where the next begins.
template <size_t kRows, size_t kColumns, size_t kBytes>
struct PackedTexts {
  std::array<uint16_t, kRows * kColumns + 1> begin{};
  std::array<char, kBytes> bytes{};

  constexpr std::string_view at(size_t row, size_t column = 0) const {
    const size_t k = row * kColumns + column;
    return {bytes.data() + begin[k], size_t{begin[k + 1]} - begin[k]};
  }
};

// Of `table`, a function that answers an array of rows, each an array of texts. The compiler alone calls it.
template <auto table>
consteval auto pack_texts() {
  constexpr auto rows = table();
  constexpr size_t bytes = [] {
    size_t sum = 0;
    for (const auto& row : table())
      for (const std::string_view text : row) sum += text.size();
    return sum;
  }();
  static_assert(bytes <= UINT16_MAX);
  PackedTexts<rows.size(), rows[0].size(), bytes> out;
  size_t k = 0, at = 0;
  for (const auto& row : rows)
    for (const std::string_view text : row) {
      for (const char c : text) out.bytes[at++] = c;
      out.begin[++k] = static_cast<uint16_t>(at);
    }
  return out;
}

// The index-th word of a list such as "none|elf|portable", "unknown" where it has no such word. For the names of an
// enumeration that counts from 0.
constexpr std::string_view nth_word(std::string_view list, size_t index) {
  for (; index > 0 && !list.empty(); --index) list.remove_prefix(std::min(list.find('|'), list.size() - 1) + 1);
  return list.empty() ? "unknown" : list.substr(0, list.find('|'));
}

}  // namespace mlc
