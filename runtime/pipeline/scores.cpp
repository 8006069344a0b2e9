#include "runtime/pipeline/scores.h"

#include <cmath>
#include <limits>

namespace mlc::pipeline {
namespace {

double half_to_double(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 0x3FF;
  double magnitude =
      exponent == 0    ? std::ldexp(mantissa, -24)
      : exponent == 31 ? (mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                       : std::ldexp(1024 + mantissa, exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

bool has_scores(const HostTensor& t) {
  return t.dtype == DType::F64 || t.dtype == DType::F32 || t.dtype == DType::F16 || t.dtype == DType::BF16;
}

double score_at(const HostTensor& t, int64_t i) {
  auto at = static_cast<size_t>(i);
  if (t.dtype == DType::F32) return t.as<float>()[at];
  if (t.dtype == DType::F64) return t.as<double>()[at];
  if (t.dtype == DType::F16) return half_to_double(t.as<uint16_t>()[at]);
  assert(t.dtype == DType::BF16);
  return __builtin_bit_cast(float, static_cast<uint32_t>(t.as<uint16_t>()[at]) << 16);
}

}  // namespace mlc::pipeline
