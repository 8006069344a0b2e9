// mma.sync: what 32 lanes of a warp multiply together. Which element of a matrix a lane has in which register is written from the tables of
// the manual of PTX ("Matrix fragments for mma.m16n8k8", "... for mma.m16n8k16", "... for mma.m16n8k32"), element by element, and from nothing of ours.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "tests/support/ptx/values.h"

namespace mlc::testing::ptx {

// Registers of a lane: of A, of B, of the sums.
struct MmaLane {
  std::array<uint32_t, 4> a{};
  std::array<uint32_t, 2> b{};
  std::array<float, 4> c{};
};

inline double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

// Element i of those that a lane has in registers: tf32 one in each, whose lowest 13 bits do not count; others two, the first in the low half.
inline double mma_element(std::string_view type, std::span<const uint32_t> registers, int i) {
  if (type == "tf32") return std::bit_cast<float>(registers[size_t(i)] & 0xffffe000u);
  const auto half = uint16_t(registers[size_t(i / 2)] >> (i % 2 ? 16 : 0));
  return type == "f16" ? half_value(half) : std::bit_cast<float>(uint32_t(half) << 16);
}

// The sums of each lane, replaced. Exact inside of a product, one rounding at its end; a device rounds or cuts more often.
inline void mma(std::string_view type, std::span<MmaLane, 32> lanes) {
  const bool is_k8 = type == "tf32";
  const int depth = is_k8 ? 8 : 16;
  double a[16][16] = {}, b[16][8] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    const MmaLane& l = lanes[size_t(lane)];
    for (int i = 0; i < (is_k8 ? 4 : 8); ++i) {
      const int row = is_k8 ? (i == 0 || i == 2 ? group : group + 8) : (i < 2 || (i >= 4 && i < 6) ? group : group + 8);
      const int column = is_k8 ? (i == 0 || i == 1 ? in_group : in_group + 4) : (i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8);
      a[row][column] = mma_element(type, l.a, i);
    }
    for (int i = 0; i < (is_k8 ? 2 : 4); ++i) {
      const int row = is_k8 ? (i == 0 ? in_group : in_group + 4) : (i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8);
      b[row][group] = mma_element(type, l.b, i);
    }
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
      double sum = lanes[size_t(lane)].c[size_t(i)];
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      lanes[size_t(lane)].c[size_t(i)] = float(sum);
    }
}

// Registers of a lane, of integers.
struct MmaCodes {
  std::array<uint32_t, 4> a{};
  std::array<uint32_t, 2> b{};
  std::array<uint32_t, 4> c{};
};

// mma.m16n8k32 of u8 and s8, four in each register, the first in the lowest bits. Sums are modulo 2^32, as they are without .satfinite.
inline void mma_codes(bool a_signed, bool b_signed, std::span<MmaCodes, 32> lanes) {
  uint32_t a[16][32] = {}, b[32][8] = {};
  const auto code = [](uint32_t bits, int i, bool is_signed) {
    const auto byte = uint8_t(bits >> 8 * (i % 4));
    return is_signed ? uint32_t(int32_t(int8_t(byte))) : uint32_t(byte);
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 16; ++i) {
      const int row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
      const int column = i < 8 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
      a[row][column] = code(lanes[size_t(lane)].a[size_t(i / 4)], i, a_signed);
    }
    for (int i = 0; i < 8; ++i) b[i < 4 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16][group] = code(lanes[size_t(lane)].b[size_t(i / 4)], i, b_signed);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
      for (int k = 0; k < 32; ++k) lanes[size_t(lane)].c[size_t(i)] += a[row][k] * b[k][column];
    }
}

}  // namespace mlc::testing::ptx
