// The cost of products on tensor cores: what must hold of it whatever its constants are.
#include <doctest/doctest.h>

#include <vector>

#include "packager/lower/device/product/fill.h"

using namespace mlc;

namespace {

constexpr double kDepths[] = {32, 64, 96, 512, 4096}, kPoints[] = {16, 64, 65, 128, 200, 1000, 4096};

// Tiles of f16 by warps, and by groups of warps.
std::vector<schedule::Schedule> tiles() {
  std::vector<schedule::Schedule> all;
  const auto add = [&](const char* instruction, int64_t rows, int64_t columns, unsigned lanes, unsigned stages) {
    schedule::Schedule s;
    s.instruction = instruction, s.block = lanes;
    s.tile = {rows, columns, 32, 1, false, stages};
    all.push_back(s);
  };
  for (const int64_t rows : {32, 64, 128})
    for (const int64_t columns : {32, 64, 128}) add("mma.f16", rows, columns, rows + columns == 256 ? 256 : 128, 3);
  for (const int64_t rows : {64, 128})
    for (const int64_t columns : {64, 128}) add("wgmma.f16", rows, columns, static_cast<unsigned>(2 * rows), 4);
  return all;
}

lower::MmaWork work(double depth, int64_t bytes = 16) {
  lower::MmaWork w;
  w.values = 2, w.last = depth, w.rows_copied = 16, w.columns_copied = bytes;
  return w;
}

double cycles(const schedule::Schedule& how, const lower::ProductSize& size, const targets::DeviceRow& machine = targets::device_of("cuda-sm90a")) { return cycles_of_mma(machine, size, work(size.depth), how); }

}  // namespace

TEST_CASE("more rows, columns, batches or depth of a product on tensor cores take no less time") {
  for (const schedule::Schedule& how : tiles())
    for (double lower::ProductSize::*extent : {&lower::ProductSize::rows, &lower::ProductSize::columns, &lower::ProductSize::batch, &lower::ProductSize::depth})
      for (const double other : {64.0, 1000.0}) {
        double before = 0;
        for (const double points : extent == &lower::ProductSize::depth ? std::vector<double>(std::begin(kDepths), std::end(kDepths)) : std::vector<double>(std::begin(kPoints), std::end(kPoints))) {
          lower::ProductSize size{other, other, 1, 512};
          size.*extent = points;
          const double now = cycles(how, size);
          CAPTURE(how.instruction);
          CAPTURE(points);
          CHECK(now >= before);
          before = now;
        }
        CHECK(before > 1.5 * cycles(how, {other, other, 1, 32}));
      }
}

TEST_CASE("two blocks of a cluster take about half of the time of a long fold on a device that is empty") {
  const targets::DeviceRow& machine = targets::device_of("cuda-sm90a");
  for (const schedule::Schedule& how : tiles()) {
    lower::MmaWork half = work(8192);
    half.parts = 2;
    const double ratio = cycles_of_mma(machine, {64, 64, 2, 8192}, half, how) / cycles(how, {64, 64, 1, 16384});
    CHECK(ratio > 0.45);
    CHECK(ratio < 0.6);
  }
}

TEST_CASE("a device of more multiprocessors takes no more time, and half of it for what fills both") {
  const targets::DeviceRow& some = targets::device_of("cuda-sm90a");
  targets::DeviceRow many = some;
  many.multiprocessors *= 2;
  for (const schedule::Schedule& how : tiles()) {
    for (const double rows : kPoints)
      for (const double depth : kDepths) CHECK(cycles(how, {rows, 1000, 1, depth}, many) <= cycles(how, {rows, 1000, 1, depth}, some));
    targets::DeviceRow fast_cache = some;
    fast_cache.cache_bytes_per_cycle = 1e9;
    many.cache_bytes_per_cycle = 1e9;
    const double ratio = cycles(how, {16384, 16384, 1, 512}, many) / cycles(how, {16384, 16384, 1, 512}, fast_cache);
    CHECK(ratio == doctest::Approx(0.5).epsilon(0.02));
  }
}
