#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "packager/ir/numeric.h"

using namespace mlc;
using namespace mlc::ir;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("the sixteen numbers of f4e2m1 are those of the standard, and their codes come back") {
  constexpr float values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 16; ++code) {
    const float want = code < 8 ? values[code] : -values[code - 8];
    CHECK(f8_value(DType::F4E2M1, code) == want);
    CHECK(std::signbit(f8_value(DType::F4E2M1, code)) == (code > 7));
    CHECK(f8_bits(DType::F4E2M1, want) == code);
  }
}

TEST_CASE("conversions to f4e2m1 go to the nearest, ties to even, and stay within 6") {
  struct { float from, to; } cases[] = {
      {0.25f, 0}, {0.2500001f, 0.5f}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2}, {2.5f, 2}, {3.5f, 4}, {5, 4}, {5.000001f, 6}, {7, 6},
      {1e30f, 6}, {kInf, 6}, {-0.74f, -0.5f}, {-5.5f, -6}, {-kInf, -6}, {1e-40f, 0}};
  for (const auto& c : cases) {
    CAPTURE(c.from);
    CHECK(round_to(DType::F4E2M1, c.from) == c.to);
  }
  CHECK(f8_bits(DType::F4E2M1, kNan) == 8);
  CHECK(f8_bits(DType::F4E2M1, -kNan) == 8);
  CHECK(lowest_finite(DType::F4E2M1) == -6);
  CHECK(highest_finite(DType::F4E2M1) == 6);
}

TEST_CASE("the numbers of the floats of 6 bits are those of the standard, conversions go to the nearest and stay within them") {
  struct { DType type; int mantissa, bias; double largest; } formats[] = {{DType::F6E2M3, 3, 1, 7.5}, {DType::F6E3M2, 2, 3, 28}};
  for (const auto& f : formats) {
    CAPTURE(name_of(f.type));
    const auto value = [&](int code) {
      const int exponent = code >> f.mantissa, fraction = code & ((1 << f.mantissa) - 1);
      return exponent ? std::ldexp((1 << f.mantissa) + fraction, exponent - f.bias - f.mantissa) : std::ldexp(fraction, 1 - f.bias - f.mantissa);
    };
    CHECK(value(31) == f.largest);
    for (int code = 0; code < 32; ++code) {
      const float want = static_cast<float>(value(code));
      for (const int sign : {0, 32}) {
        CHECK(f8_value(f.type, static_cast<uint8_t>(code | sign)) == (sign ? -want : want));
        CHECK(f8_bits(f.type, sign ? -want : want) == (code | sign));
      }
      if (code == 31) continue;
      const double half = (value(code) + value(code + 1)) / 2;
      CHECK(round_to(f.type, half) == value(code + (code & 1)));
      CHECK(round_to(f.type, std::nextafter(half, 0)) == value(code));
      CHECK(round_to(f.type, std::nextafter(half, 99)) == value(code + 1));
    }
    for (const float v : {30.0f, 1e30f, kInf}) CHECK(round_to(f.type, v) == f.largest);
    CHECK(f8_bits(f.type, kNan) == 32);
    CHECK(lowest_finite(f.type) == -f.largest);
    CHECK(highest_finite(f.type) == f.largest);
  }
}

TEST_CASE("f8e8m0 is an exponent alone") {
  for (int code = 0; code < 255; ++code) {
    const float value = f8_value(DType::F8E8M0, static_cast<uint8_t>(code));
    CHECK(value == std::ldexp(1.0f, code - 127));
    CHECK(f8_bits(DType::F8E8M0, value) == code);
    CHECK(f8_bits(DType::F8E8M0, -value) == code);
    CHECK(f8_bits(DType::F8E8M0, std::nextafter(value * 1.5f, 0.0f)) == code);
    CHECK(f8_bits(DType::F8E8M0, value * 1.5f) == code + 1);
  }
  CHECK(std::isnan(f8_value(DType::F8E8M0, 255)));
  for (float v : {kNan, kInf, -kInf, 3.4e38f}) CHECK(f8_bits(DType::F8E8M0, v) == 255);
  for (float v : {0.0f, -0.0f, 1e-45f}) CHECK(f8_bits(DType::F8E8M0, v) == 0);
  CHECK(lowest_finite(DType::F8E8M0) == 0x1p-127);
  CHECK(highest_finite(DType::F8E8M0) == 0x1p127);
}

TEST_CASE("types of less than 8 bits keep their bits where they are read as another one of their width") {
  for (int64_t v = 0; v < 16; ++v) {
    const int64_t negative = v < 8 ? v : v - 16;
    CHECK(apply_unary(Op::Bitcast, DType::U4, DType::I4, {v, 0}).i == negative);
    CHECK(apply_unary(Op::Bitcast, DType::I4, DType::U4, {negative, 0}).i == v);
    const double number = f8_value(DType::F4E2M1, static_cast<uint8_t>(v));
    CHECK(apply_unary(Op::Bitcast, DType::I4, DType::F4E2M1, {negative, 0}).f == number);
    CHECK(apply_unary(Op::Bitcast, DType::F4E2M1, DType::I4, {0, number}).i == negative);
  }
  for (int64_t v = 0; v < 4; ++v) CHECK(apply_unary(Op::Bitcast, DType::U2, DType::I2, {v, 0}).i == (v < 2 ? v : v - 4));
}

TEST_CASE("integers of two bits wrap, saturate and lie a byte each") {
  for (int64_t v = -9; v <= 9; ++v) {
    CAPTURE(v);
    CHECK(wrap_to(DType::U2, v) == (v & 3));
    CHECK(wrap_to(DType::I2, v) == ((v & 3) ^ 2) - 2);
    CHECK(apply_unary(Op::SatCast, DType::I32, DType::I2, {v, 0}).i == std::min<int64_t>(std::max<int64_t>(v, -2), 1));
    CHECK(apply_unary(Op::SatCast, DType::F32, DType::U2, {0, static_cast<double>(v)}).i == std::min<int64_t>(std::max<int64_t>(v, 0), 3));
  }
  for (DType t : {DType::U2, DType::I2})
    for (int64_t v = lowest_int(t); v <= highest_int(t); ++v) {
      unsigned char bytes[3] = {};
      store_element(t, bytes, 1, {v, 0});
      CHECK(load_element(t, bytes, 1).i == v);
      CHECK(static_cast<int>(bytes[1]) == (v & 255));
      CHECK(bytes[2] == 0);
    }
}

TEST_CASE("exp2 is zero where it is no normal number, and what is no number stays none") {
  const struct { float from, to; } cases[] = {{0, 1}, {-0.0f, 1}, {1e-40f, 1}, {-1, 0.5f}, {3, 8}, {0.5f, 1.41421354f}, {-126, 0x1p-126f}, {-126.5f, 0}, {-1e30f, 0}, {-kInf, 0}, {128, kInf}, {kInf, kInf}};
  for (const auto& c : cases) {
    CAPTURE(c.from);
    CHECK(apply_unary(Op::Exp2, DType::F32, DType::F32, {0, c.from}).f == c.to);
  }
  CHECK(std::isnan(apply_unary(Op::Exp2, DType::F32, DType::F32, {0, std::nan("")}).f));
}

TEST_CASE("tf32 has ten bits behind the first, ties go away from zero, and what is no number stays none") {
  struct { float from, to; } cases[] = {{1, 1}, {0x1.001p0f, 1}, {0x1.002p0f, 0x1.004p0f}, {0x1.001ffep0f, 0x1p0f}, {-0x1.002p0f, -0x1.004p0f}, {0x1.fffp0f, 0x1p1f},
                                        {-0.0f, -0.0f}, {kInf, kInf}, {-kInf, -kInf}, {std::numeric_limits<float>::max(), kInf}};
  for (const auto& c : cases) {
    CAPTURE(c.from);
    CHECK(tf32_value(c.from) == c.to);
    CHECK(tf32_value(tf32_value(c.from)) == tf32_value(c.from));
    CHECK(apply_unary(Op::Tf32, DType::F32, DType::F32, {0, c.from}).f == c.to);
  }
  CHECK(std::signbit(tf32_value(-0.0f)));
  for (const uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0x7f800001u}) CHECK(std::isnan(tf32_value(std::bit_cast<float>(bits))));
}
