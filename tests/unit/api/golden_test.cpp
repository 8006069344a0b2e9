// Comparing what a variant answers with what was recorded.
#include "runtime/api/session/golden.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace mlc;
using namespace mlc::api;

namespace {

template <class T>
Difference difference(DType t, const std::vector<T>& found, const std::vector<T>& expected) {
  return compare_arrays(t, std::as_bytes(std::span(found)), std::as_bytes(std::span(expected)));
}

format::Tolerance tolerance(format::Metric metric, double value) { return {0, metric, value}; }

// That two elements of a type differ by so much, both ways, and neither differs from itself.
template <class T>
void check_pair(DType t, T a, T b, double by) {
  CAPTURE(name_of(t));
  CHECK(difference<T>(t, {a}, {b}).max_abs == by);
  CHECK(difference<T>(t, {b}, {a}).max_abs == by);
  CHECK(!within(difference<T>(t, {a}, {b}), tolerance(format::Metric::None, 0)));
  for (const T same : {a, b}) {
    CHECK(difference<T>(t, {same}, {same}).max_abs == 0);
    CHECK(within(difference<T>(t, {same}, {same}), tolerance(format::Metric::None, 0)));
  }
}

}  // namespace

TEST_CASE("every element type has its values") {
  check_pair<double>(DType::F64, 1.5, -2, 3.5);
  check_pair<float>(DType::F32, 1.5f, -2, 3.5);
  check_pair<uint16_t>(DType::F16, 0x3c00, 0xc000, 3);      // 1, -2
  check_pair<uint16_t>(DType::F16, 0x0001, 0x0000, 0x1p-24);
  check_pair<uint16_t>(DType::BF16, 0x3f80, 0x4000, 1);     // 1, 2
  check_pair<uint8_t>(DType::F8E4M3, 0x38, 0x40, 1);        // 1, 2
  check_pair<uint8_t>(DType::F8E4M3, 0x7e, 0x78, 448 - 256);
  check_pair<uint8_t>(DType::F8E5M2, 0x3c, 0x40, 1);        // 1, 2
  check_pair<uint8_t>(DType::F8E4M3FNUZ, 0x40, 0x48, 1);    // 1, 2
  check_pair<uint8_t>(DType::F8E5M2FNUZ, 0x40, 0x44, 1);    // 1, 2
  check_pair<uint8_t>(DType::F4E2M1, 0x2, 0xf, 7);          // 1, -6
  check_pair<uint8_t>(DType::F6E2M3, 0x8, 0x3c, 7);         // 1, -6
  check_pair<uint8_t>(DType::F6E3M2, 0xc, 0x3c, 17);        // 1, -16
  check_pair<uint8_t>(DType::F8E8M0, 127, 129, 3);          // 1, 4
  check_pair<int64_t>(DType::I64, -5, 7, 12);
  check_pair<int32_t>(DType::I32, INT32_MIN, INT32_MAX, 4294967295.0);
  check_pair<int16_t>(DType::I16, -5, 7, 12);
  check_pair<int8_t>(DType::I8, -128, 127, 255);
  check_pair<int8_t>(DType::I4, -8, 7, 15);
  check_pair<int8_t>(DType::I2, -2, 1, 3);
  check_pair<uint64_t>(DType::U64, 5, 7, 2);
  check_pair<uint32_t>(DType::U32, 0, UINT32_MAX, 4294967295.0);
  check_pair<uint16_t>(DType::U16, 0, 65535, 65535);
  check_pair<uint8_t>(DType::U8, 255, 0, 255);
  check_pair<uint8_t>(DType::U4, 15, 0, 15);
  check_pair<uint8_t>(DType::U2, 3, 0, 3);
  check_pair<uint8_t>(DType::Bool, 1, 0, 1);
}

TEST_CASE("whole numbers beyond the precision of a double differ where their bits do") {
  check_pair<int64_t>(DType::I64, int64_t{1} << 53, (int64_t{1} << 53) + 1, 1);
  check_pair<int64_t>(DType::I64, INT64_MAX, INT64_MAX - 1, 1);
  check_pair<int64_t>(DType::I64, INT64_MIN, INT64_MAX, 0x1p64);
  check_pair<uint64_t>(DType::U64, UINT64_MAX, UINT64_MAX - 1, 1);
}

TEST_CASE("metrics: absolute, relative to the largest, units in the last place, direction") {
  using format::Metric;
  const Difference d = difference<float>(DType::F32, {1, 2, 4.5f}, {1, 2, 4});
  CHECK(d.max_abs == 0.5);
  CHECK(d.max_rel == 0.125);
  CHECK(d.largest == 4);
  CHECK(d.worst == 2);
  CHECK(d.found == 4.5);
  CHECK(d.expected == 4);
  CHECK(within(d, tolerance(Metric::Rel, 0.125)));
  CHECK(!within(d, tolerance(Metric::Rel, 0.124)));
  CHECK(within(d, tolerance(Metric::Abs, 0.5)));
  CHECK(!within(d, tolerance(Metric::Abs, 0.499)));
  CHECK(!within(d, tolerance(Metric::None, 0)));
  CHECK(within(d, tolerance(Metric::Cosine, 0.99)));
  CHECK(!within(d, tolerance(Metric::Cosine, 0.99999)));
  const float next = std::nextafter(1.0f, 2.0f);
  CHECK(within(difference<float>(DType::F32, {next}, {1}), tolerance(Metric::Ulp, 1)));
  CHECK(!within(difference<float>(DType::F32, {next}, {1}), tolerance(Metric::Ulp, 0)));
  CHECK(difference<float>(DType::F32, {-0x1p-149f}, {0x1p-149f}).max_ulp == 2);
  CHECK(difference<float>(DType::F32, {-0.0f}, {0.0f}).max_ulp == 0);
}

TEST_CASE("NaN agrees with NaN and infinity with itself; nothing else makes up for them") {
  using format::Metric;
  const float inf = INFINITY, nan = NAN;
  CHECK(within(difference<float>(DType::F32, {nan, inf, -inf}, {nan, inf, -inf}), tolerance(Metric::None, 0)));
  for (const auto& [a, b] : {std::pair(nan, 1.0f), {1.0f, nan}, {inf, -inf}, {inf, 1.0f}, {1.0f, inf}, {nan, inf}})
    for (const Metric metric : {Metric::Abs, Metric::Rel, Metric::Ulp, Metric::Cosine})
      CHECK(!within(difference<float>(DType::F32, {a}, {b}), tolerance(metric, metric == Metric::Cosine ? -1 : 1e30)));
}
