// Liberties that Vulkan gives a device: inexact division and square roots, subnormal numbers as zero. What we emit takes them away where
// results would differ.
#include "tests/unit/spirv/device_case.h"

namespace mlc {
namespace {

using namespace testing;
namespace sp = testing::spirv;

constexpr uint32_t kTiles = 64;

// One element for each lane of the tiles; `value` makes those of the inputs. The first element that is not the reference's, or -1.
template <class MakeValue>
int64_t differs(Op op, DType from, DType to, unsigned args, sp::Manners manners, MakeValue value) {
  Pool pool;
  OpCase c = op_case(pool, op, from, to, 1, args);
  const uint32_t count = kTiles * kBlock;
  std::vector<AlignedBytes> buffers;
  for (int b = 0; b < 4; ++b) buffers.emplace_back(count * bytes_of(b < 3 ? from : to));
  for (uint32_t b = 0; b < 3; ++b)
    for (uint32_t k = 0; k < count; ++k) write_element(buffers[b].data.get() + k * bytes_of(from), {value(b), 0, false}, from);
  Reference reference(c.kernel, true);
  std::vector<Reference::Buffer> views;
  for (AlignedBytes& b : buffers) views.push_back({b.data.get(), b.size});
  reference.run(views, {}, 0, count);
  const std::vector<std::byte> expected(buffers[3].data.get(), buffers[3].data.get() + buffers[3].size);
  std::memset(buffers[3].data.get(), 0x5a, buffers[3].size);
  spread(pool, c.kernel);
  const auto emitted = targets::spirv::emit_kernel(c.kernel, {});
  REQUIRE(emitted.ok());
  sp::Launch l;
  for (AlignedBytes& b : buffers) l.buffers.push_back({b.data.get(), b.size});
  l.tiles = kTiles, l.manners = manners;
  const sp::Outcome out = sp::run(emitted->words, emitted->entry, l);
  REQUIRE_MESSAGE(out.error.empty(), out.error);
  return first_difference(buffers[3].data.get(), expected, reference.unspecified[3], to);
}

TEST_CASE("quotients and square roots are right although the device's are not") {
  std::mt19937_64 random(3);
  const auto any = [&](uint32_t) { return std::ldexp(double(int64_t(random()) >> 11) / (int64_t{1} << 52), int(random() % 24) - 12) + 0x1p-30; };
  const auto whole = [&](uint32_t b) { return b == 1 ? double(1 + random() % 300) : double(1 + random() % 300) * double(1 + random() % 300); };
  const auto positive = [&](uint32_t b) { return std::fabs(any(b)); };
  for (const int ulps : {-2, -1, 1, 2})
    for (int round = 0; round < 8; ++round) {
      CAPTURE(ulps);
      for (const Op op : {Op::Div, Op::FloorDiv, Op::FloorMod, Op::TruncDiv}) {
        CHECK(differs(op, DType::F32, DType::F32, 2, {.division_ulps = ulps}, any) == -1);
        CHECK(differs(op, DType::F32, DType::F32, 2, {.division_ulps = ulps}, whole) == -1);
      }
      CHECK(differs(Op::Sqrt, DType::F32, DType::F32, 1, {.division_ulps = ulps}, positive) == -1);
      CHECK(differs(Op::Div, DType::F16, DType::F16, 2, {.division_ulps = ulps}, any) == -1);
    }
  // The executor does what it is asked: without the correction this would be seen.
  CHECK(differs(Op::Div, DType::F64, DType::F64, 2, {.division_ulps = 2}, any) == -1);
  CHECK(differs(Op::Div, DType::F32, DType::F32, 2, {.division_ulps = 2}, [&](uint32_t b) { return b == 1 ? 0x1p60 : any(b); }) != -1);
}

TEST_CASE("small floats keep their subnormal numbers where the device has none") {
  std::mt19937_64 random(4);
  for (const DType t : {DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ, DType::F4E2M1, DType::F6E2M3, DType::F6E3M2}) {
    CAPTURE(name_of(t));
    const auto pattern = [&](uint32_t) { return decode_small(uint32_t(random() % (1u << bits_of(t))), t); };
    const auto near_zero = [&](uint32_t) { return std::ldexp(double(random() % 4096) - 2048, -int(random() % 40)); };
    for (int round = 0; round < 4; ++round) {
      CHECK(differs(Op::Cast, t, DType::F32, 1, {.flushes = true}, pattern) == -1);
      CHECK(differs(Op::Cast, DType::F32, t, 1, {.flushes = true}, near_zero) == -1);
      CHECK(differs(Op::Add, t, t, 2, {.flushes = true}, pattern) == -1);
      CHECK(differs(Op::Mul, t, t, 2, {.flushes = true}, pattern) == -1);
    }
  }
}

}  // namespace
}  // namespace mlc
