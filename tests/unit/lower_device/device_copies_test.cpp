// Products on tensor cores whose factors are copied to shared memory beside the lanes: right on the interpreter and on the executor, which both make a copy at its
// wait; which factors are copied and which go through registers; and what the assembler makes of the loop.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "packager/passes/passes.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

// y[m, n] = sum x[m, k] * w[n, k]: both factors lie along the depth.
void rows_by_rows(NestMaker& m, const Expr* M, const Expr* K, const Expr* N, DType t, DType w_type = DType::None) {
  ir::Context& ctx = m.ctx;
  const DType sum = is_float(t) ? DType::F32 : DType::I32;
  const uint32_t x = m.array("x", t, {M, K}), w = m.array("w", w_type == DType::None ? t : w_type, {N, K}), y = m.output("y", sum, {M, N});
  const ir::Dim *i = m.dim("m", M), *k = m.dim("k", K), *j = m.dim("n", N);
  m.map({i, j}, y, {m.at(i), m.at(j)},
        m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, ctx.cast(sum, m.load(x, {m.at(i), m.at(k)})), ctx.cast(sum, m.load(w, {m.at(j), m.at(k)})))));
}

// y[m, n] = sum x[k, m] * w[k, n]: both factors lie along their points.
void columns_by_columns(NestMaker& m, const Expr* M, const Expr* K, const Expr* N, DType t, bool panels = false) {
  ir::Context& ctx = m.ctx;
  const uint32_t x = m.array("x", t, {K, M}), w = m.array("w", t, {K, N}), y = m.output("y", DType::F32, {M, N});
  if (panels) m.f.arrays[w].layout.pieces = {{1, 16, 0}, {0, 1, 0}, {1, 1, 16}};
  const ir::Dim *i = m.dim("m", M), *k = m.dim("k", K), *j = m.dim("n", N);
  m.map({i, j}, y, {m.at(i), m.at(j)},
        m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, ctx.cast(DType::F32, m.load(x, {m.at(k), m.at(i)})), ctx.cast(DType::F32, m.load(w, {m.at(k), m.at(j)})))));
}

// y[p, q, o] = sum x[p + u - 1, q + v - 1, c] * w[u, v, c, o], where x has that point; weights in panels of columns, with pairs of channels or without.
void windows(NestMaker& m, DType t, int64_t channels, int64_t columns, bool pairs = false) {
  ir::Context& ctx = m.ctx;
  const uint32_t x = m.array("x", t, {m.n(7), m.n(11), m.n(channels)}), w = m.array("w", t, {m.n(3), m.n(3), m.n(channels), m.n(columns)}), y = m.output("y", DType::F32, {m.n(7), m.n(11), m.n(columns)});
  m.f.arrays[w].layout.pieces = {{0, 1, 0}, {1, 1, 0}, {3, 16, 0}, {2, pairs ? 2 : 1, 0}, {3, 1, 16}};
  if (pairs) m.f.arrays[w].layout.pieces.push_back({2, 1, 2});
  const ir::Dim *p = m.dim("p", m.n(7)), *q = m.dim("q", m.n(11)), *o = m.dim("o", m.n(columns)), *u = m.dim("u", m.n(3)), *v = m.dim("v", m.n(3)), *c = m.dim("c", m.n(channels));
  const auto place = [&](const ir::Dim* of, const ir::Dim* tap) { return ctx.add(ctx.add(m.at(of), m.at(tap)), m.n(-1)); };
  const auto within = [&](const Expr* at, int64_t extent) { return ctx.binary(Op::And, ctx.binary(Op::Le, m.n(0), at), ctx.binary(Op::Lt, at, m.n(extent))); };
  const Expr *left = m.load(x, {place(p, u), place(q, v), m.at(c)}), *right = m.load(w, {m.at(u), m.at(v), m.at(c), m.at(o)});
  m.map({p, q, o}, y, {m.at(p), m.at(q), m.at(o)},
        m.fold(Join::Sum, {u, v, c}, ctx.binary(Op::Mul, ctx.cast(DType::F32, left), ctx.cast(DType::F32, right)), ctx.binary(Op::And, within(place(p, u), 7), within(place(q, v), 11))));
}

schedule::Schedule best(ir::Context& ctx, const nest::Function& f, const char* name = "cuda-sm80") {
  const auto all = lower::candidates(ctx, f, f.body[0], device(name));
  REQUIRE(all.ok());
  return all->front();
}

// Copies, and stores of chunks that went through registers, in the kernels of a function.
struct Brought {
  size_t copies = 0, cells = 0, waits = 0, stores = 0, transposed = 0;  // cells: copies of four bytes
};
Brought brought(ir::Context& ctx, const nest::Function& f, const char* name = "cuda-sm80", const schedule::Schedule* how = nullptr) {
  Brought found;
  const std::function<void(const std::vector<loop::StmtPtr>&)> look = [&](const std::vector<loop::StmtPtr>& block) {
    for (const loop::StmtPtr& s : block) {
      found.copies += s->kind == loop::StmtKind::Copy, found.waits += s->kind == loop::StmtKind::WaitCopies;
      found.cells += s->kind == loop::StmtKind::Copy && s->step == 4;
      found.stores += s->kind == loop::StmtKind::Store && s->value->type == ir::Type{DType::U32, 4};
      found.transposed += s->kind == loop::StmtKind::LoadMatrices && s->transposed;
      look(s->body), look(s->orelse);
    }
  };
  for (const std::vector<loop::Kernel>& kernels : test::lower_all(ctx, f, device(name), test::test_math, how))
    for (const loop::Kernel& kernel : kernels) look(kernel.body);
  return found;
}

void check(ir::Context& ctx, const nest::Function& f, const test::Symbols& symbols = {}, const schedule::Schedule* how = nullptr) {
  const targets::Target& target = device("cuda-sm80");
  test::check_kernels(f, test::lower_all(ctx, f, target, test::test_math, how), target, symbols, 1, 4e-6);
  CHECK(test::check_emitted(ctx, f, target, symbols, how).conflicts == 0);
}

}  // namespace

TEST_CASE("both factors of a product are copied, whatever its depth is to a piece and to the stages") {
  for (const DType t : {DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8}) {
    const int64_t chunk = 16 / static_cast<int64_t>(bytes_of(t)), piece = 4 * chunk;
    // One piece and a part of one, as many as the stages, one more with a part.
    for (const int64_t depth : {std::max<int64_t>(32, piece), piece + chunk + (piece < 32 ? piece : 0), 3 * piece, 4 * piece + 3 * chunk}) {
      CAPTURE(name_of(t));
      CAPTURE(depth);
      ir::Context ctx;
      NestMaker maker(ctx);
      rows_by_rows(maker, maker.n(45), maker.n(depth), maker.n(67), t);
      const Brought b = brought(ctx, maker.f);
      CHECK(b.copies > 0);
      CHECK(b.stores == 0);
      CHECK(best(ctx, maker.f).tile.stages == 3);
      check(ctx, maker.f);
    }
  }
}

TEST_CASE("copies of every tile and any number of stages") {
  for (const unsigned stages : {2u, 3u, 4u})
    for (const int64_t rows : {32, 64, 128})
      for (const int64_t columns : {32, 128}) {
        CAPTURE(stages);
        CAPTURE(rows);
        CAPTURE(columns);
        ir::Context ctx;
        NestMaker maker(ctx);
        rows_by_rows(maker, maker.n(rows + 3), maker.n(168), maker.n(columns + 5), DType::F16);
        schedule::Schedule how = best(ctx, maker.f);
        how.tile.rows = rows, how.tile.columns = columns, how.tile.stages = stages, how.block = rows == 128 && columns == 128 ? 256 : 128;
        if (rows + columns == 256 && stages == 4) {
          CHECK(lower::lower(ctx, maker.f, maker.f.body[0], device("cuda-sm80"), test::test_math, &how).status().text().find("memory for two to four pieces") != std::string::npos);
          continue;
        }
        CHECK(schedule::print(how).find(" stages " + std::to_string(stages)) != std::string::npos);
        check(ctx, maker.f, {}, &how);
      }
}

TEST_CASE("copies of sizes that only the run knows") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
  rows_by_rows(maker, ctx.sym(m), ctx.mul(ctx.sym(k), ctx.integer(8)), ctx.sym(n), DType::F16);
  CHECK(brought(ctx, maker.f).copies > 0);
  for (const auto& [a, b, c] : {std::array<int64_t, 3>{0, 5, 7}, {1, 1, 1}, {5, 0, 3}, {5, 4, 3}, {65, 13, 20}}) check(ctx, maker.f, {{m, a}, {k, b}, {n, c}});
}

TEST_CASE("weights in panels or as rows are copied cell by cell in f32, in f16 eight columns at once, where there are such, or put together in registers") {
  for (const DType t : {DType::F32, DType::F16})
    for (const bool panels : {true, false})
      for (const int64_t depth : {32, 72, 75})
        for (const int64_t columns : {72, 70}) {
          CAPTURE(depth);
          CAPTURE(columns);
          ir::Context ctx;
          NestMaker maker(ctx);
          maker.matmul(maker.n(50), maker.n(depth), maker.n(columns), panels, true, t);
          const Brought b = brought(ctx, maker.f);
          const bool eights = t == DType::F16 && columns == 72;
          CHECK((b.copies > b.cells) == (depth != 75 || eights));
          CHECK((b.cells > 0) == (t == DType::F32));
          CHECK((b.transposed > 0) == eights);
          CHECK((b.stores > 0) == (t == DType::F16 && (!eights || depth == 75)));
          check(ctx, maker.f);
        }
}

TEST_CASE("rows and columns of 16 bits that lie side by side are copied so, of every tile, and transposed where warps read them") {
  for (const DType t : {DType::F16, DType::BF16})
    for (const int64_t rows : {32, 64, 128})
      for (const int64_t columns : {32, 64, 128})
        for (const int64_t depth : {40, 101}) {
          CAPTURE(rows);
          CAPTURE(columns);
          CAPTURE(depth);
          ir::Context ctx;
          NestMaker maker(ctx);
          columns_by_columns(maker, maker.n(rows + 24), maker.n(depth), maker.n(columns + 8), t, depth == 40);
          schedule::Schedule how = best(ctx, maker.f);
          how.tile.rows = rows, how.tile.columns = columns, how.block = rows == 128 && columns == 128 ? 256 : 128;
          const Brought b = brought(ctx, maker.f, "cuda-sm80", &how);
          CHECK(b.copies > 0);
          CHECK(b.stores == 0);
          CHECK(b.transposed > 0);
          check(ctx, maker.f, {}, &how);
        }
}

TEST_CASE("columns that lie side by side of sizes that only the run knows: eight at a time, or none are") {
  for (const int64_t eight : {8, 4}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
    columns_by_columns(maker, ctx.mul(ctx.sym(m), ctx.integer(8)), ctx.sym(k), ctx.mul(ctx.sym(n), ctx.integer(eight)), DType::F16);
    const Brought b = brought(ctx, maker.f);
    CHECK(b.transposed > 0);
    CHECK((b.stores > 0) == (eight == 4));
    for (const auto& [a, c, d] : {std::array<int64_t, 3>{0, 5, 1}, {1, 1, 1}, {2, 0, 3}, {5, 37, 9}}) check(ctx, maker.f, {{m, a}, {k, c}, {n, d}});
  }
}

TEST_CASE("pixels of a picture lie side by side, where a window is one of them") {
  for (const int64_t window : {1, 3}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.type = DType::F32;
    const uint32_t x = maker.array("x", DType::F16, {maker.n(64), maker.n(9), maker.n(16)}), w = maker.array("w", DType::F16, {maker.n(64), maker.n(window), maker.n(64)});
    const uint32_t y = maker.output("y", DType::F32, {maker.n(64), maker.n(9), maker.n(16)});
    const ir::Dim *o = maker.dim("o", maker.n(64)), *p = maker.dim("p", maker.n(9)), *q = maker.dim("q", maker.n(16)), *c = maker.dim("c", maker.n(64)), *u = maker.dim("u", maker.n(window));
    const Expr *at = ctx.sub(ctx.add(maker.at(q), maker.at(u)), ctx.integer(window / 2)), *in = ctx.binary(Op::And, ctx.binary(Op::Le, ctx.integer(0), at), ctx.binary(Op::Lt, at, maker.n(16)));
    const Expr* product = ctx.binary(Op::Mul, ctx.cast(DType::F32, maker.load(x, {maker.at(c), maker.at(p), at})), ctx.cast(DType::F32, maker.load(w, {maker.at(c), maker.at(u), maker.at(o)})));
    maker.map({o, p, q}, y, {maker.at(o), maker.at(p), maker.at(q)}, maker.fold(Join::Sum, {u, c}, product, window == 1 ? nullptr : in));
    const Brought b = brought(ctx, maker.f);
    CHECK(b.transposed > 0);
    CHECK((b.stores > 0) == (window == 3));  // taps of a row may lie outside
    check(ctx, maker.f);
  }
}

TEST_CASE("factors of 16 bits whose pairs along the depth lie together are copied pair by pair, where chunks do not") {
  for (const DType t : {DType::F16, DType::BF16})
    for (const int64_t depth : {32, 72, 74, 150, 75})
      for (const int64_t columns : {70, 128})
        for (const bool panels : {true, false}) {
          CAPTURE(name_of(t));
          CAPTURE(depth);
          CAPTURE(columns);
          ir::Context ctx;
          NestMaker maker(ctx);
          if (panels) maker.matmul(maker.n(50), maker.n(depth), maker.n(columns), false, true, t), maker.in_pairs(maker.f.inputs[1]);
          else rows_by_rows(maker, maker.n(50), maker.n(depth), maker.n(columns), t);
          const Brought b = brought(ctx, maker.f);
          const bool chunks = depth % 8 == 0, pairs = depth % 2 == 0;
          CHECK((b.copies > b.cells) == chunks);  // of rows
          CHECK((b.cells > 0) == (pairs && (panels || !chunks)));
          CHECK((b.stores > 0) == !pairs);
          CHECK(b.transposed == 0);
          check(ctx, maker.f);
        }
}

TEST_CASE("pairs of every tile, of a depth that only the run knows, and of outer points of a fold") {
  for (const int64_t rows : {32, 64, 128})
    for (const int64_t columns : {32, 64, 128}) {
      CAPTURE(rows);
      CAPTURE(columns);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(rows + 3), maker.n(104), maker.n(columns + 5), false, true, DType::BF16), maker.in_pairs(maker.f.inputs[1]);
      schedule::Schedule how = best(ctx, maker.f);
      how.tile.rows = rows, how.tile.columns = columns, how.block = rows == 128 && columns == 128 ? 256 : 128;
      CHECK(brought(ctx, maker.f, "cuda-sm80", &how).cells > 0);
      check(ctx, maker.f, {}, &how);
    }
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000);
  maker.matmul(ctx.sym(m), ctx.mul(ctx.sym(k), ctx.integer(2)), maker.n(48), false, true, DType::BF16), maker.in_pairs(maker.f.inputs[1]);
  CHECK(brought(ctx, maker.f).cells > 0);
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{0, 5}, {1, 1}, {5, 0}, {5, 19}, {65, 52}}) check(ctx, maker.f, {{m, a}, {k, b}});
}

TEST_CASE("pairs of channels of a window are copied, taps one after the other and as one depth with the channels") {
  for (const bool flat : {false, true})
    for (const int64_t channels : {20, 40})
      for (const int64_t columns : {40, 36}) {
        CAPTURE(flat);
        CAPTURE(channels);
        CAPTURE(columns);
        ir::Context ctx;
        NestMaker maker(ctx);
        windows(maker, DType::BF16, channels, columns, true);
        schedule::Schedule how = best(ctx, maker.f);
        how.tile.flat = flat;
        const Brought b = brought(ctx, maker.f, "cuda-sm80", &how);
        CHECK((b.copies > b.cells) == (channels == 40));
        CHECK(b.cells > 0);
        CHECK(b.stores == 0);
        check(ctx, maker.f, {}, &how);
      }
}

TEST_CASE("images are copied with zeros for what lies outside, a point of the window after the other") {
  for (const int64_t stride : {1, 2})
    for (const bool panels : {true, false}) {
      CAPTURE(stride);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.conv({.n = 4, .h = 7, .w = 6, .c = 40, .m = 36, .stride = stride, .panels = panels});
      CHECK(brought(ctx, maker.f).copies > 0);
      check(ctx, maker.f);
    }
}

TEST_CASE("taps and channels of a window that are one depth are copied in chunks of channels, and weights as they lie") {
  for (const DType t : {DType::F16, DType::BF16, DType::F32})
    for (const int64_t channels : {8, 16, 24, 40, 20}) {
      CAPTURE(channels);
      ir::Context ctx;
      NestMaker m(ctx);
      windows(m, t, channels, 40);
      schedule::Schedule how = best(ctx, m.f);
      how.tile.flat = true;
      const Brought b = brought(ctx, m.f, "cuda-sm80", &how);
      const bool is_short = t != DType::F32;
      CHECK(b.copies > b.cells);
      CHECK((b.cells > 0) == (is_short && channels % 8 != 0));  // pairs of channels of which eight do not lie together
      CHECK((b.transposed > 0) == is_short);
      CHECK((b.stores > 0) == !is_short);  // weights of f32
      check(ctx, m.f, {}, &how);
    }
}

TEST_CASE("factors that are rounded to tf32 are copied as they are and rounded where warps read them") {
  for (const bool panels : {true, false}) {
    CAPTURE(panels);
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(50), maker.n(72), maker.n(70), panels, true, DType::F32);
    REQUIRE(passes::run(ctx, maker.f, {.pipeline = {"products-in-tf32"}}).ok());
    CHECK(brought(ctx, maker.f).copies > 0);
    CHECK(best(ctx, maker.f).tile.stages == 3);
    check(ctx, maker.f);
  }
}

TEST_CASE("what is flipped or of another type goes through registers, and so does all on other devices") {
  ir::Context ctx;
  NestMaker mixed(ctx), odd(ctx), plain(ctx);
  rows_by_rows(plain, plain.n(64), plain.n(64), plain.n(64), DType::F32);
  rows_by_rows(mixed, mixed.n(64), mixed.n(64), mixed.n(64), DType::F16, DType::BF16);
  rows_by_rows(odd, odd.n(64), odd.n(63), odd.n(64), DType::F16);
  for (const nest::Function* f : {&mixed.f, &odd.f}) {
    CHECK(brought(ctx, *f).copies == 0);
    CHECK(brought(ctx, *f).waits == 0);
    CHECK(best(ctx, *f).tile.stages == 2);
    check(ctx, *f);
  }
  for (const char* name : {"cuda-sm75", "vulkan-base", "vulkan-subgroup"}) {
    CHECK(brought(ctx, plain.f, name).copies == 0);
    CHECK(best(ctx, plain.f, name).tile.stages == 0);
  }
  // More stages without copies are more memory and nothing else.
  schedule::Schedule how = best(ctx, mixed.f);
  how.tile.stages = 3;
  check(ctx, mixed.f, {}, &how);
}

TEST_CASE("a wait that leaves a group too many is a wrong result") {
  ir::Context ctx;
  NestMaker maker(ctx);
  rows_by_rows(maker, maker.n(128), maker.n(160), maker.n(128), DType::F16);
  const nest::Function& f = maker.f;
  for (const bool shortened : {false, true}) {
    auto kernels = lower::lower(ctx, f, f.body[0], device("cuda-sm80"), test::test_math, nullptr);
    REQUIRE(kernels.ok());
    REQUIRE(kernels->size() == 1);
    const std::function<void(std::vector<loop::StmtPtr>&)> look = [&](std::vector<loop::StmtPtr>& block) {
      for (loop::StmtPtr& s : block) {
        if (s->kind == loop::StmtKind::WaitCopies && s->step > 0) s->step += shortened;
        look(s->body), look(s->orelse);
      }
    };
    look((*kernels)[0].body);
    std::vector<uint16_t> x(128 * 160, 0x3c00), w(128 * 160, 0x3c00);  // ones
    std::vector<float> y(128 * 128);
    loop::Run run;
    for (const loop::Param& p : (*kernels)[0].params)
      run.buffers.push_back(p.written ? std::as_writable_bytes(std::span(y)) : p.array == f.inputs[0] ? std::as_writable_bytes(std::span(x)) : std::as_writable_bytes(std::span(w)));
    run.value = [](const ir::Sym*) { return std::nullopt; };
    const auto result = loop::interpret((*kernels)[0], run);
    const bool is_right = result.ok() && std::all_of(y.begin(), y.end(), [](float v) { return v == 160; });
    CHECK(is_right == !shortened);
  }
}
