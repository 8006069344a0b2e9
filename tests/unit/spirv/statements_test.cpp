// Control flow, memory and arguments: the emitted words do what the reference does, one lane after the other.
#include "tests/unit/spirv/statement_cases.h"

namespace mlc {
namespace {

using namespace testing;
namespace sp = testing::spirv;

struct Data {
  explicit Data(const StatementCase& c) {
    std::mt19937_64 random(c.kernel.name.size());
    const size_t count = (c.tiles + 1) * kBlock;
    for (const loop::Param& q : c.kernel.params) {
      buffers.emplace_back(count * bytes_of(q.dtype));
      if (!q.written) fill(buffers.back().data.get(), count, q.dtype, random);
    }
  }
  std::vector<AlignedBytes> buffers;
};

sp::Outcome launch(const StatementCase& c, Data& d, uint32_t row = 65535) {
  const auto emitted = targets::spirv::emit_kernel(c.kernel, {});
  if (!emitted.ok()) return {emitted.status().text()};
  sp::Launch l;
  for (AlignedBytes& b : d.buffers) l.buffers.push_back({b.data.get(), b.size});
  l.scalars = c.scalars;
  l.tiles = c.tiles;
  l.row = row;
  return sp::run(emitted->words, emitted->entry, l);
}

TEST_CASE("statements do what the reference does") {
  Pool pool;
  for (const StatementCase& c : statement_cases(pool)) {
    if (c.order_matters) continue;
    CAPTURE(c.kernel.name);
    Data got(c), expected(c);
    const sp::Outcome out = launch(c, got);
    REQUIRE_MESSAGE(out.error.empty(), out.error);
    CHECK(out.fault == c.fault);
    CHECK(out.launch == (c.fault ? 7 : 0));
    Reference reference(c.kernel, true);
    std::vector<Reference::Buffer> views;
    for (AlignedBytes& b : expected.buffers) views.push_back({b.data.get(), b.size});
    CHECK(uint32_t(reference.run(views, c.scalars, 0, c.tiles)) == c.fault);
    if (c.fault) continue;  // which lanes came first is not told
    for (size_t k = 0; k < got.buffers.size(); ++k)
      CHECK(first_difference(got.buffers[k].data.get(), {expected.buffers[k].data.get(), expected.buffers[k].data.get() + expected.buffers[k].size},
                             reference.unspecified[k], c.kernel.params[k].dtype) == -1);
  }
}

TEST_CASE("lanes read behind a barrier what others stored before it") {
  Pool pool;
  for (const DType t : {DType::I32, DType::I64, DType::U8, DType::Bool, DType::F64, DType::BF16}) {
    const StatementCase c = shared_case(pool, t);
    Data d(c);
    const sp::Outcome out = launch(c, d);
    REQUIRE_MESSAGE(out.error.empty(), out.error);
    for (uint32_t at = 0; at < c.tiles * kBlock; ++at) {
      const uint32_t from = at / kBlock * kBlock + kBlock - 1 - at % kBlock;
      Lane v = read_element(d.buffers[1].data.get() + 4 * from, DType::I32);
      const int64_t expected = t == DType::BF16 ? int64_t(round_to(float(v.i), t)) : t == DType::F64 ? v.i : wrap(v.i, t);
      CHECK(read_element(d.buffers[4].data.get() + 8 * at, DType::I64).i == expected);
    }
  }
}

TEST_CASE("without the barrier it is a race, and the machine says so") {
  Pool pool;
  const StatementCase c = shared_case(pool, DType::I32, /*barrier=*/false);
  Data d(c);
  CHECK(launch(c, d).error.find("races") != std::string::npos);
}

TEST_CASE("tiles beyond a row of workgroups are in the next rows, and those behind the last do nothing") {
  Pool pool;
  StatementCase c;
  c.kernel = lanes_kernel(pool, "rows", [&](loop::Kernel&, const Expr* tile, const Expr*, const Expr* at) { return seq(store_(4, at, tile)); });
  c.tiles = 65535 + 3;
  Data d(c);
  REQUIRE(launch(c, d).error.empty());
  for (const uint32_t tile : {0u, 65534u, 65535u, 65537u})
    CHECK(read_element(d.buffers[4].data.get() + 8 * kBlock * tile, DType::I64).i == tile);
  CHECK(read_element(d.buffers[4].data.get() + 8 * kBlock * 65538, DType::I64).i == 0);
}

TEST_CASE("equal kernels give equal words") {
  Pool a, b;
  const auto one = statement_cases(a), two = statement_cases(b);
  for (size_t k = 0; k < one.size(); ++k)
    CHECK(targets::spirv::emit_kernel(one[k].kernel, {})->words == targets::spirv::emit_kernel(two[k].kernel, {})->words);
}

TEST_CASE("what a device does not have is refused by name") {
  Pool pool;
  StatementCase c = shared_case(pool, DType::F64);
  const auto code = [&](targets::spirv::Limits limits) { return targets::spirv::emit_kernel(c.kernel, limits).status().code; };
  CHECK(code({.lanes = 4}) == Code::Unsupported);
  CHECK(code({.shared_bytes = 64}) == Code::Unsupported);
  CHECK(code({.bindings = 4}) == Code::Unsupported);
  c.kernel.lanes = 0;
  CHECK(code({}) == Code::Unsupported);
}

}  // namespace
}  // namespace mlc
