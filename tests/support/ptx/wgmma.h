// wgmma.mma_async: what 128 lanes of four warps multiply together, of factors in shared memory. Where elements lie is read from the bits of the descriptors, as the manual of
// PTX has them ("Matrix descriptor format", "Strides", "Swizzling modes"), and from nothing of ours.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/lanes/lanes.h"
#include "tests/support/ptx/mma.h"

namespace mlc::testing::ptx {

struct Descriptor {
  uint64_t start = 0, leading = 0, stride = 0;  // bytes
  uint64_t swizzle = 0;                         // bytes: of a row of the pattern that repeats every eight rows

  // What is wrong; empty: nothing. `by_points`: the rows of the pattern are steps of the depth.
  static std::string read(uint64_t bits, bool by_points, Descriptor& out) {
    constexpr uint64_t kModes[] = {0, 128, 64, 32};
    const auto field = [&](unsigned first, unsigned count) { return bits >> first & ((uint64_t{1} << count) - 1); };
    out = {field(0, 14) << 4, field(16, 14) << 4, field(32, 14) << 4, kModes[bits >> 62]};
    if (field(14, 2) || field(30, 2) || field(46, 3) || field(52, 10)) return "a descriptor with bits that have no meaning";
    if (field(49, 3)) return "a descriptor of a pattern that begins elsewhere";
    if (out.swizzle == 0) return "a descriptor without a swizzle";
    // The start is in the first row of a pattern: by points at its begin, else some steps behind it.
    const uint64_t in_pattern = out.start % (8 * out.swizzle);
    if (by_points ? in_pattern != 0 : in_pattern % 32 != 0 || in_pattern + 32 > out.swizzle) return "a descriptor of a factor that begins within a pattern, at " + std::to_string(out.start);
    return "";
  }

  // Of chunk `chunk` (16 bytes) of a row, or of a step of factors by points.
  uint64_t place(uint64_t row, uint64_t chunk, bool by_points) const {
    const uint64_t wide = swizzle / 16, at = start + row / 8 * stride + row % 8 * swizzle + chunk % wide * 16 + (by_points ? chunk / wide * leading : 0);
    return at ^ ((at >> 7 & (wide - 1)) << 4);
  }
};

// One of the factors, point by point along the depth. Nothing, and the run fails, where memory is not to be read so.
inline std::optional<std::vector<std::vector<double>>> group_factor(lanes::Block& block, uint32_t lane, uint64_t bits, std::string_view type, size_t points, bool by_points) {
  constexpr size_t kStepBytes = 32, kChunk = 16;
  Descriptor d;
  if (const std::string wrong = Descriptor::read(bits, by_points, d); !wrong.empty()) return block.fail(lane, wrong), std::nullopt;
  const bool of_codes = type == "s8" || type == "u8";
  const size_t size = of_codes ? 1 : 2, depth = kStepBytes / size;
  std::vector<std::vector<double>> all(points, std::vector<double>(depth));
  const auto value = [&](const std::byte* at) {
    uint16_t raw = 0;
    std::memcpy(&raw, at, size);
    return of_codes ? (type == "s8" ? double(int8_t(raw)) : double(raw)) : double(as_small(raw, type == "bf16"));
  };
  for (size_t row = 0; row < (by_points ? depth : points); ++row)
    for (size_t chunk = 0; chunk < (by_points ? points * size : kStepBytes) / kChunk; ++chunk) {
      const std::byte* from = nullptr;
      for (const uint32_t reader : {lane, lane + 1}) {  // two of the group: none of its lanes may write there without a barrier
        from = block.read_beside(reader, d.place(row, chunk, by_points), kChunk);
        if (!from) return std::nullopt;
      }
      for (size_t k = 0; k < kChunk / size; ++k) {
        const size_t other = chunk * (kChunk / size) + k;
        (by_points ? all[other][row] : all[row][other]) = value(from + k * size);
      }
    }
  return all;
}

// Products of a lane that are under way: its registers hold nothing until it has waited for them.
class GroupProducts {
 public:
  void fence() { is_fenced_ = true; }
  void commit() { ++groups_; }
  bool any() const { return !pending_.empty(); }

  // The sums that products in these registers add to; nothing: they may not begin.
  std::optional<std::vector<uint64_t>> begin(const std::vector<uint32_t>& registers, std::span<const uint64_t> values) {
    for (const Pending& p : pending_) {
      if (p.registers == registers) return p.values;
      for (const uint32_t r : registers)
        if (std::find(p.registers.begin(), p.registers.end(), r) != p.registers.end()) return std::nullopt;
    }
    if (!is_fenced_) return std::nullopt;
    std::vector<uint64_t> sums;
    for (const uint32_t r : registers) sums.push_back(values[r]);
    return sums;
  }
  void set(const std::vector<uint32_t>& registers, std::vector<uint64_t> sums, std::span<uint64_t> values) {
    std::erase_if(pending_, [&](const Pending& p) { return p.registers == registers; });
    for (const uint32_t r : registers) values[r] = kPoison;
    pending_.push_back({registers, std::move(sums), groups_});
  }
  void wait(uint64_t left, std::span<uint64_t> values) {
    std::erase_if(pending_, [&](const Pending& p) {
      if (p.group + left >= groups_) return false;
      for (size_t k = 0; k < p.registers.size(); ++k) values[p.registers[k]] = p.values[k];
      return true;
    });
    is_fenced_ = false;
  }

 private:
  static constexpr uint64_t kPoison = 0xA5A5A5A5;
  struct Pending {
    std::vector<uint32_t> registers;
    std::vector<uint64_t> values;
    uint64_t group = 0;
  };
  std::vector<Pending> pending_;
  uint64_t groups_ = 0;
  bool is_fenced_ = false;
};

}  // namespace mlc::testing::ptx
