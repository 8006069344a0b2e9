#include "packager/compile/golden_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "packager/ir/numeric.h"

namespace mlc::compile {
namespace {

// SplitMix64 of a counter: https://prng.di.unimi.it/splitmix64.c
uint64_t hashed(uint64_t counter) {
  uint64_t z = counter + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct Interval {
  int64_t lo = 0, hi = 1;
};

// What integers are drawn from: all of what is bounded on both sides, else what is usual as far as the bounds allow it.
Interval interval_of(DType dtype, const InputBounds& bounds) {
  constexpr double kFar = 0x1p52;  // beyond it a double knows no integers
  Interval usual = {0, 1};
  if (dtype == DType::U8) usual = {0, 255};
  if (dtype == DType::I8) usual = {-128, 127};
  const double lo = std::ceil(std::clamp(bounds.range.lo, -kFar, kFar)), hi = std::floor(std::clamp(bounds.range.hi, -kFar, kFar));
  if (hi < lo) return usual;
  const Interval allowed = {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
  if (bounds.range.is_bounded() && !bounds.is_summed) return allowed;
  if (allowed.hi < usual.lo) return {allowed.hi, allowed.hi};
  if (allowed.lo > usual.hi) return {allowed.lo, allowed.lo};
  return {std::max(usual.lo, allowed.lo), std::min(usual.hi, allowed.hi)};
}

}  // namespace

nest::Tensor drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed, const InputBounds& bounds, Draw how) {
  nest::Tensor tensor = nest::Tensor::zeros(dtype, std::move(shape));
  const unsigned width = bytes_of(dtype);
  const uint64_t count = width == 0 ? 0 : tensor.bytes.size() / width;
  const bool is_real = is_float(dtype);
  if (how == Draw::Zeros && !is_real) return tensor;
  const Interval interval = how == Draw::Ones ? Interval{1, 1} : interval_of(dtype, bounds);
  const uint64_t choices = static_cast<uint64_t>(interval.hi - interval.lo) + 1;
  const bool is_bounded = is_real && bounds.range.is_bounded() && !bounds.is_summed;
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t random = hashed(seed << 32 ^ k);
    std::byte* at = tensor.bytes.data() + k * width;
    double unit = static_cast<double>(static_cast<float>(random >> 40) * 0x1p-23f - 1.0f);  // [-1, 1)
    if (is_bounded) unit = bounds.range.lo + (unit + 1) / 2 * (bounds.range.hi - bounds.range.lo);
    if (bits_of(dtype) < 8 && is_real) *at = static_cast<std::byte>(random & ((1u << bits_of(dtype)) - 1));
    else if (dtype == DType::F8E8M0) *at = static_cast<std::byte>(123 + (random & 7));
    else if (is_real) ir::store_element(dtype, tensor.bytes.data(), k, {0, unit});
    else ir::store_element(dtype, tensor.bytes.data(), k, {interval.lo + static_cast<int64_t>(random % choices), 0});
  }
  return tensor;
}

}  // namespace mlc::compile
