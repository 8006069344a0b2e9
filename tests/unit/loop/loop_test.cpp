#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "packager/loop/build.h"
#include "packager/loop/kernel_key.h"
#include "packager/loop/print.h"
#include "packager/loop/verify.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

using namespace mlc;
using ir::Expr;
using ir::Op;

namespace {

// y[i] = max(x[i], 0) * scale for i < N, four at a time with a masked rest; faults if N is negative.
loop::Kernel example(ir::Context& ctx) {
  loop::Kernel k;
  k.name = "relu \"x\"";
  k.params.push_back({"x", DType::F32, false, 0, loop::Role::Array, nullptr});
  k.params.push_back({"y", DType::F32, true, 1, loop::Role::Array, nullptr});
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  const ir::Sym* N = ctx.declare_sym("batch.size", -5, 1000);
  k.scalars = {N};
  k.tiles = ctx.ceildiv(ctx.sym(N), ctx.integer(4));
  k.locals.push_back({"tmp", DType::F32, ctx.integer(4), {}});
  loop::Builder b(ctx, k.body);
  b.fault(ctx.binary(Op::Lt, ctx.sym(N), ctx.integer(0)), 1);
  b.with_for(k.tile_begin, k.tile_end, 1, [&](const Expr* t) {
    const Expr* at = b.let(ctx.mul(t, ctx.integer(4)));
    b.prefetch(0, ctx.add(at, ctx.integer(1000)));
    const Expr* mask = b.let(loop::vec_binary(ctx, Op::Lt, loop::ramp(ctx, at, 4), loop::splat(ctx, ctx.sym(N), 4)));
    const Expr* x = b.local(loop::vec_load(ctx, 0, {DType::F32, 4}, at, mask));
    b.assign(x, loop::vec_binary(ctx, Op::Max, x, ctx.number(0, DType::F32)));
    const Expr* twice = loop::vec_binary(ctx, Op::Mul, x, ctx.number(0.1, DType::F32));
    b.store(2, ctx.integer(0), loop::vec_binary(ctx, Op::Add, twice, twice));
    b.with_if(ctx.binary(Op::Le, ctx.integer(0), at),
              [&] { b.store(1, at, loop::vec_load(ctx, 2, {DType::F32, 4}, ctx.integer(0)), mask); },
              [&] { b.assign(x, x); });
    const Expr* n = b.local(ctx.integer(0));
    b.with_while(ctx.binary(Op::Lt, n, ctx.integer(3)), ctx.integer(5),
                 [&] { b.assign(n, ctx.add(n, ctx.integer(1))); });
  });
  return k;
}

}  // namespace

TEST_CASE("a kernel prints, parses back and prints the same") {
  ir::Context ctx;
  loop::Kernel k = example(ctx);
  REQUIRE_MESSAGE(loop::verify(k).ok(), loop::verify(k).text());
  std::string text = loop::to_string(k);
  ir::Context other;
  auto parsed = loop::parse(other, text + text);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.status().text()));
  REQUIRE(parsed->size() == 2);
  CHECK(loop::to_string((*parsed)[0]) == text);
  CHECK(loop::to_string((*parsed)[1]) == text);
  CHECK(loop::verify((*parsed)[0]).ok());
}

TEST_CASE("malformed text is refused with a line, whatever is cut or changed") {
  ir::Context ctx;
  std::string text = loop::to_string(example(ctx));
  for (size_t cut = 1; cut + 2 < text.size(); ++cut) {
    ir::Context other;
    auto r = loop::parse(other, text.substr(0, cut));
    CHECK_FALSE(r.ok());
  }
  for (size_t at = 0; at < text.size(); ++at) {  // must not crash; most changes are errors, some are other kernels
    for (char c : {'(', ')', '}', '%', '9', 'x', '"'}) {
      ir::Context other;
      std::string changed = text;
      changed[at] = c;
      auto r = loop::parse(other, changed);
      if (r.ok())
        for (const loop::Kernel& k : *r) (void)loop::verify(k).ok();
    }
  }
  auto r = loop::parse(ctx, "kernel \"a\" tiles 1 range %0 %1 {\n  store 0 [0] (frobnicate 1)\n}\n");
  REQUIRE_FALSE(r.ok());
  CHECK(r.status().message.find("line 2") != std::string::npos);
  CHECK(r.status().message.find("frobnicate") != std::string::npos);
}

TEST_CASE("the interpreter runs tiles, masks and symbols") {
  ir::Context ctx;
  loop::Kernel k = example(ctx);
  for (int64_t n : {0, 1, 4, 7, 16}) {
    std::vector<float> x(static_cast<size_t>(n)), y(static_cast<size_t>(n), -7.0f);
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i) - 2;
    loop::Run run;
    run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
    run.value = [&](const ir::Sym*) { return n; };
    auto r = loop::interpret(k, run);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    CHECK(*r == 0);
    for (int64_t i = 0; i < n; ++i)
      CHECK(y[static_cast<size_t>(i)] == doctest::Approx(0.2 * std::max(0.0f, x[static_cast<size_t>(i)])));
  }
}

TEST_CASE("the interpreter refuses an access out of range and reports faults") {
  ir::Context ctx;
  loop::Kernel k = example(ctx);
  std::vector<float> x(6), y(4);
  loop::Run run;
  run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  run.value = [](const ir::Sym*) { return 6; };
  CHECK_FALSE(loop::interpret(k, run).ok());
  run.tile_begin = run.tile_end = 0;
  run.value = [](const ir::Sym*) { return -1; };
  auto r = loop::interpret(k, run);
  REQUIRE(r.ok());
  CHECK(*r == 1);
}

TEST_CASE("a while that exceeds its bound faults") {
  ir::Context ctx;
  loop::Kernel k;
  k.name = "w";
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  k.tiles = ctx.integer(1);
  loop::Builder b(ctx, k.body);
  const Expr* n = b.local(ctx.integer(0));
  b.with_while(ctx.binary(Op::Lt, n, ctx.integer(10)), ctx.integer(9),
               [&] { b.assign(n, ctx.add(n, ctx.integer(1))); });
  auto r = loop::interpret(k, {{}, [](const ir::Sym*) { return std::nullopt; }});
  REQUIRE(r.ok());
  CHECK(*r == 3);
}

TEST_CASE("the verifier names what is wrong") {
  auto broken = [](const std::function<void(ir::Context&, loop::Kernel&, loop::Builder&)>& change) {
    ir::Context ctx;
    loop::Kernel k = example(ctx);
    loop::Builder b(ctx, k.body);
    change(ctx, k, b);
    Status s = loop::verify(k);
    CHECK_FALSE(s.ok());
    return s.message;
  };
  auto contains = [](const std::string& s, const char* part) { return s.find(part) != std::string::npos; };
  CHECK(contains(broken([](auto& c, auto&, auto& b) { b.store(0, c.integer(0), c.number(0, DType::F32)); }),
                 "read only"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) { b.store(9, c.integer(0), c.number(0, DType::F32)); }),
                 "unknown buffer"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) { b.store(1, c.integer(0), c.integer(0)); }), "element type"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) {
                   b.let(c.add(c.fresh_var({DType::I64, 1}), c.integer(1)));
                 }),
                 "not bound"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) { b.let(c.unary(Op::Exp, b.local(c.number(1, DType::F32)))); }),
                 "not allowed"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) {
                   b.let(c.sym(c.declare_sym("other")));
                   b.let(c.add(c.sym(c.declare_sym("other")), c.integer(1)));
                 }),
                 "not a scalar"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) { b.let(loop::splat(c, c.integer(1), 3)); }), "lanes"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) {
                   b.store(1, c.integer(0), c.number(0, DType::F32), loop::splat(c, c.boolean(true), 4));
                 }),
                 "mask"));
  CHECK(contains(broken([](auto& c, auto& k, auto&) { k.locals[0].count = c.sym(k.scalars[0]); }), "a multiple of 64"));
  CHECK(contains(broken([](auto&, auto& k, auto&) { k.body[0]->cond = nullptr; }), "condition"));
  CHECK(contains(broken([](auto& c, auto&, auto& b) {
          const Expr* v = b.let(c.add(b.local(c.integer(1)), c.integer(1)));
          b.assign(v, c.integer(2));
        }), "assignment"));
}

TEST_CASE("kernels that differ in one word of a statement have different keys") {
  const auto key = [](const std::string& body) {
    ir::Context ctx;
    auto k = loop::parse(ctx, "kernel \"k\" tiles 1 block 32 range %0 %1 {\n  param \"a\" u8 array 0\n  param \"y\" i32 out array 1\n" + body + "}\n");
    REQUIRE_MESSAGE(k.ok(), (k.ok() ? "" : k.status().text()));
    return loop::kernel_key(k->front());
  };
  const std::vector<std::string> bodies{
      "  for %2 = 0 .. 4 step 1 {\n  }\n", "  rolled %2 = 0 .. 4 step 1 {\n  }\n", "  unroll %2 = 0 .. 4 step 1 {\n  }\n",
      "  fold %2.i32 = add of i32:1\n", "  fold %2.i32 = max of i32:1\n", "  fold %2.i32 = max of i32:1 width 8\n",
      "  mma %2.f32x4 = f16 (splat.f32x4 f32:0x0p0) (splat.u32x4 u32:1) (splat.u32x2 u32:1)\n", "  mma %2.f32x4 = bf16 (splat.f32x4 f32:0x0p0) (splat.u32x4 u32:1) (splat.u32x2 u32:1)\n",
      "  mma %2.i32x4 = u8 i8 (splat.i32x4 i32:0) (splat.u32x4 u32:1) (splat.u32x2 u32:1)\n", "  mma %2.i32x4 = u8 u8 (splat.i32x4 i32:0) (splat.u32x4 u32:1) (splat.u32x2 u32:1)\n",
      "  transposed %2.u32x4 = (splat.u32x4 u32:1)\n", "  transposed %2.u32x4 = (splat.u32x4 u32:2)\n", "  tiles begin 32\n", "  tiles begin 64\n", "  tiles store 0 to 1 [0]\n", "  tiles store 1 to 1 [0]\n",
      "  tiles dot 0 bytes 64 (load.u8 0 0) 64 (load.u8 0 64)\n", "  tiles dot 1 bytes 64 (load.u8 0 0) 64 (load.u8 0 64)\n", "  tiles dot 1 bytes 64 (load.u8 0 0) 65 (load.u8 0 64)\n"};
  std::set<std::string> keys;
  for (const std::string& body : bodies) keys.insert(key(body));
  CHECK(keys.size() == bodies.size());
}
