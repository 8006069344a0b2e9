// What devices have beside operations: blocks, barriers, memory of blocks and lanes, faults, grids.
#include <doctest/doctest.h>

#include <numeric>

#include "schema/module_abi.h"
#include "targets/families.h"
#include "tests/support/ptx/launch.h"
#include "tests/unit/ptx/device_kernels.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

loop::StmtPtr barrier() { return statement(loop::StmtKind::Barrier); }

// for t: lanes l of `lanes`: body(t, l)
template <class Body>
void device_body(Pool& p, loop::Kernel& k, uint32_t lanes, Body&& body) {
  const Expr *t = p.var(), *l = p.var();
  k.lanes = lanes;
  k.body.push_back(for_(t, k.tile_begin, k.tile_end, 1, seq(for_(l, p.integer(0), p.integer(lanes), 1, body(t, l), loop::ForKind::Lanes))));
}
void add_space(Pool& p, loop::Kernel& k, DType t, int64_t count, loop::Space space) {
  add_local(p, k, t, count);
  k.locals.back().space = space;
}

struct Emitted {
  Emitted(const Target& target, loop::Kernel kernel) {
    std::vector<loop::Kernel> kernels;
    kernels.push_back(std::move(kernel));
    auto module = targets::emit_module(target, kernels);
    if (!module.ok()) FAIL(module.status().text());
    const Status audit = targets::audit_module(target, module->bytes);
    if (!audit.ok()) FAIL(audit.text());
    bytes = std::move(module->bytes);
    loaded = std::make_unique<ptx::LoadedModule>(bytes);
    REQUIRE(loaded->error().empty());
  }
  std::vector<std::byte> bytes;
  std::unique_ptr<ptx::LoadedModule> loaded;
};
std::span<std::byte> bytes_of_vector(auto& v) { return std::as_writable_bytes(std::span(v)); }

// Each block of 64 lanes turns its part around through memory that it shares.
loop::Kernel turn_around(Pool& p, int64_t shared_elements, bool with_barrier) {
  loop::Kernel k = kernel(p, "turn", {{DType::F32, false}, {DType::F32, true}});
  add_space(p, k, DType::F32, shared_elements, loop::Space::Shared);
  device_body(p, k, 64, [&](const Expr* t, const Expr* l) {
    const Expr* at = p.add(p.mul(t, p.integer(64)), l);
    const Expr* mirrored = p.make(Op::Sub, {DType::I64, 1}, {p.integer(63), l});
    auto body = seq(store_(2, l, p.load(0, {DType::F32, 1}, at)));
    if (with_barrier) body.push_back(barrier());
    body.push_back(store_(1, at, p.load(2, {DType::F32, 1}, mirrored)));
    return body;
  });
  return k;
}

TEST_CASE("lanes of a block exchange values behind a barrier, and without one the executor sees the race") {
  for (const Target& target : targets::ptx::emitter().targets()) {
    Pool p;
    std::vector<float> in(192), out(192, -1);
    std::iota(in.begin(), in.end(), 1.0f);
    const Emitted e(target, turn_around(p, 64, true));
    CHECK(e.loaded->entry(0).has_barriers);
    CHECK(e.loaded->entry(0).shared_bytes == 256);
    const ptx::Outcome outcome = ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(in), bytes_of_vector(out)}, {}, 3);
    CHECK_MESSAGE(outcome.error.empty(), outcome.error);
    for (size_t k = 0; k < out.size(); ++k) CHECK(out[k] == in[k / 64 * 64 + 63 - k % 64]);

    const Emitted racing(target, turn_around(p, 64, false));
    CHECK(ptx::run_kernel(*racing.loaded, 0, {bytes_of_vector(in), bytes_of_vector(out)}, {}, 3).error.find("races") != std::string::npos);
  }
}

TEST_CASE("memory of a block above 48 KiB is given by the launch, and the variant says so") {
  for (const Target& target : targets::ptx::emitter().targets()) {
    Pool p;
    std::vector<float> in(64, 2), out(64);
    const Emitted e(target, turn_around(p, 20000, true));
    CHECK(e.loaded->entry(0).shared_bytes == 0);
    CHECK(e.loaded->entry(0).dynamic_shared_bytes == 80000);
    CHECK(ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(in), bytes_of_vector(out)}, {}, 1).error.empty());
    CHECK(out == in);
    format::Variant variant;
    target.emitter->require(target, e.bytes, variant);
    const auto wants = [](const format::Clause& c) { return c.id == static_cast<uint32_t>(Feature::CudaMaxSharedOptin) && c.values == std::vector<int64_t>{80000}; };
    CHECK(std::any_of(variant.clauses.begin(), variant.clauses.end(), wants));
  }
}

TEST_CASE("what reads a buffer again behind a barrier sees what other lanes wrote there") {
  // y[l] = l; barrier; z[l] = y[0] + (y[l] = l + 1; barrier; y[0]): the two reads of y[0] differ.
  Pool p;
  loop::Kernel k = kernel(p, "again", {{DType::I64, true}, {DType::I64, true}});
  device_body(p, k, 32, [&](const Expr*, const Expr* l) {
    const Expr *first = p.var(), *again = p.var();
    const auto read = [&] { return p.load(0, {DType::I64, 1}, p.integer(0)); };
    return seq(store_(0, l, p.add(l, p.integer(10))), barrier(), define(loop::StmtKind::Let, first, read()), barrier(),
               store_(0, l, p.add(l, p.integer(20))), barrier(), define(loop::StmtKind::Let, again, read()),
               store_(1, l, p.add(first, p.mul(again, p.integer(100)))));
  });
  const Emitted e(targets::ptx::emitter().targets()[1], std::move(k));
  std::vector<int64_t> y(32), z(32);
  const ptx::Outcome outcome = ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(y), bytes_of_vector(z)}, {}, 1);
  CHECK_MESSAGE(outcome.error.empty(), outcome.error);
  for (const int64_t v : z) CHECK(v == 10 + 20 * 100);
}

TEST_CASE("a grid has more blocks than tiles, and the others do nothing") {
  Pool p;
  loop::Kernel k = kernel(p, "count", {{DType::U8, true}});
  device_body(p, k, 1, [&](const Expr* t, const Expr*) { return seq(store_(0, t, p.make(Op::Cast, {DType::U8, 1}, {p.add(t, p.integer(1))}))); });
  const Emitted e(targets::ptx::emitter().targets()[0], std::move(k));
  std::vector<uint8_t> out(65535 + 3);
  CHECK(ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(out)}, {}, uint32_t(out.size())).error.empty());  // two rows of blocks
  for (size_t t = 0; t < out.size(); ++t)
    if (out[t] != uint8_t(t + 1)) FAIL("tile " << t);
  CHECK(ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(out)}, {}, 0).error.empty());
}

TEST_CASE("arrays of a lane are registers") {
  Pool p;
  loop::Kernel k = kernel(p, "private", {{DType::F32, false}, {DType::F32, true}});
  add_space(p, k, DType::F32, 8, loop::Space::Private);
  device_body(p, k, 16, [&](const Expr*, const Expr* l) {
    const Expr *i = p.var(), *j = p.var();
    const Expr* at = p.add(p.mul(l, p.integer(8)), i);
    const Expr* back = p.make(Op::Sub, {DType::I64, 1}, {p.integer(7), j});
    return seq(for_(i, p.integer(0), p.integer(8), 1, seq(store_(2, i, p.load(0, {DType::F32, 1}, at))), loop::ForKind::Unroll),
               for_(j, p.integer(0), p.integer(8), 1, seq(store_(1, p.add(p.mul(l, p.integer(8)), j), p.load(2, {DType::F32, 1}, back))), loop::ForKind::Unroll));
  });
  const Emitted e(targets::ptx::emitter().targets()[2], std::move(k));
  std::vector<float> in(128), out(128);
  std::iota(in.begin(), in.end(), 0.0f);
  CHECK(ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(in), bytes_of_vector(out)}, {}, 1).error.empty());
  for (size_t n = 0; n < out.size(); ++n) CHECK(out[n] == in[n / 8 * 8 + 7 - n % 8]);
}

TEST_CASE("an array of a lane with an index that is known at run time only is refused") {
  Pool p;
  loop::Kernel k = kernel(p, "indexed", {{DType::F32, true}});
  add_space(p, k, DType::F32, 16, loop::Space::Private);
  device_body(p, k, 16, [&](const Expr*, const Expr* l) {
    return seq(store_(1, l, p.number(1)), store_(0, l, p.load(1, {DType::F32, 1}, p.make(Op::FloorMod, {DType::I64, 1}, {p.mul(l, l), p.integer(16)}))));
  });
  std::vector<loop::Kernel> kernels;
  kernels.push_back(std::move(k));
  const auto module = targets::emit_module(targets::ptx::emitter().targets()[0], kernels);
  REQUIRE(!module.ok());
  CHECK(module.status().text().find(".local") != std::string::npos);
}

// Lane l stores at index[l], which must be below n; a lane whose index is not notes a fault.
loop::Kernel scatter(Pool& p, bool with_barrier) {
  loop::Kernel k = kernel(p, "scatter", {{DType::I64, false}, {DType::I64, true}});
  device_body(p, k, 32, [&](const Expr*, const Expr* l) {
    const Expr* at = p.load(0, {DType::I64, 1}, l);
    const Expr* clamped = p.make(Op::Min, {DType::I64, 1}, {at, p.integer(31)});
    auto body = seq(fault(p.make(Op::Lt, {DType::Bool, 1}, {p.integer(31), at}), MLRUN_FAULT_INDEX));
    if (with_barrier) body.push_back(barrier());
    body.push_back(store_(1, clamped, l));
    return body;
  });
  return k;
}

TEST_CASE("a fault is told by code and launch, and with barriers all lanes go on") {
  for (const Target& target : targets::ptx::emitter().targets())
    for (const bool with_barrier : {false, true}) {
      Pool p;
      const Emitted e(target, scatter(p, with_barrier));
      CHECK(e.loaded->entry(0).may_fault);
      std::vector<int64_t> index(32), out(32, -1);
      std::iota(index.begin(), index.end(), 0);
      ptx::Outcome outcome = ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(index), bytes_of_vector(out)}, {}, 1, 5);
      CHECK_MESSAGE(outcome.error.empty(), outcome.error);
      CHECK(outcome.fault == std::array<uint32_t, 2>{0, 0});
      CHECK(out == index);
      index[31] = 77, out[31] = -1;
      outcome = ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(index), bytes_of_vector(out)}, {}, 1, 5);
      CHECK_MESSAGE(outcome.error.empty(), outcome.error);
      CHECK(outcome.fault == std::array<uint32_t, 2>{MLRUN_FAULT_INDEX, 5});
      CHECK(out[31] == (with_barrier ? 31 : -1));
    }
}

TEST_CASE("a loop beyond its bound is a fault") {
  for (const bool with_barrier : {false, true}) {
    Pool p;
    loop::Kernel k = kernel(p, "count", {{DType::I64, true}});
    ir::Sym n;
    n.name = "n";
    k.scalars = {&n};
    device_body(p, k, 4, [&](const Expr*, const Expr* l) {
      const Expr* i = p.var();
      auto body = seq(define(loop::StmtKind::Local, i, p.integer(0)),
                      while_(p.make(Op::Lt, {DType::Bool, 1}, {i, p.sym(&n)}), p.integer(10), seq(define(loop::StmtKind::Assign, i, p.add(i, p.integer(1))))));
      if (with_barrier) body.push_back(barrier());
      body.push_back(store_(0, l, i));
      return body;
    });
    const Emitted e(targets::ptx::emitter().targets()[0], std::move(k));
    std::vector<int64_t> out(4, -1);
    CHECK(ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(out)}, {10}, 1).fault[0] == 0);
    CHECK(out == std::vector<int64_t>(4, 10));
    std::fill(out.begin(), out.end(), -1);
    const ptx::Outcome outcome = ptx::run_kernel(*e.loaded, 0, {bytes_of_vector(out)}, {11}, 1);
    CHECK_MESSAGE(outcome.error.empty(), outcome.error);
    CHECK(outcome.fault[0] == MLRUN_FAULT_BOUND);
    CHECK(out == std::vector<int64_t>(4, with_barrier ? 10 : -1));
  }
}

TEST_CASE("kernels for processors and for devices are not taken for each other") {
  Pool p;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(kernel(p, "plain", {{DType::F32, true}}));
  CHECK(!targets::emit_module(targets::ptx::emitter().targets()[0], kernels).ok());
  kernels[0] = turn_around(p, 64, true);
  CHECK(!targets::emit_module(*targets::find_target("x86-64-v3"), kernels).ok());
}

TEST_CASE("equal kernels give equal bytes, whatever the number of threads, and 16 share an image") {
  const Target& target = targets::ptx::emitter().targets()[1];
  const auto make = [&](unsigned threads) {
    Pool p;
    std::vector<loop::Kernel> kernels;
    for (int k = 0; k < 20; ++k) kernels.push_back(turn_around(p, 64 + k, true));
    targets::EmitOptions options;
    options.threads = threads;
    auto module = targets::emit_module(target, kernels, nullptr, options);
    REQUIRE(module.ok());
    return std::move(module->bytes);
  };
  const std::vector<std::byte> one = make(1);
  CHECK(one == make(2));
  const auto module = gpu::decode(one);
  REQUIRE(module.ok());
  REQUIRE(module->images.size() == 2);
  CHECK(module->entries[15].image == 0);
  CHECK(module->entries[16].image == 1);
  // A module of one target is none of another.
  CHECK(targets::audit_module(target, one).ok());
  CHECK(!targets::audit_module(targets::ptx::emitter().targets()[0], one).ok());
}

TEST_CASE("the audit compares what a module says of an entry with its code") {
  Pool p;
  const Target& target = targets::ptx::emitter().targets()[0];
  const Emitted e(target, turn_around(p, 64, true));
  const auto changed = [&](auto&& change) {
    auto module = gpu::decode(e.bytes);
    REQUIRE(module.ok());
    change(*module);
    return targets::audit_module(target, gpu::encode(*module));
  };
  CHECK(changed([](gpu::Module&) {}).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].lanes[0] = 32; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].num_buffers = 3; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].num_scalars = 1; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].shared_bytes = 128; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].dynamic_shared_bytes = 128; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].has_barriers = false; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].may_fault = true; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.entries[0].name += "x"; }).ok());
  CHECK(!changed([](gpu::Module& m) { m.images[0].features.pop_back(); }).ok());
  CHECK(!changed([](gpu::Module& m) { m.images[0].bytes[0] = std::byte{' '}; }).ok());
}

}  // namespace
}  // namespace mlc
