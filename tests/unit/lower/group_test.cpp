// Several nests in one kernel, block of rows by block of rows. The oracle is the interpreter, which runs them one after the other.
#include "packager/nest/facts/group.h"

#include <functional>
#include <limits>

#include "packager/loop/print.h"
#include "packager/nest/text/print.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"
#include "tests/text/nest_text.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const char* const kTargets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "rv64gc", "portable"};

void join_all(nest::Function& f, size_t from = 1) {
  for (size_t k = from; k < f.body.size(); ++k) f.body[k].joins = true;
}

std::optional<nest::Group> group(const nest::Function& f) { return nest::group_of(f, nest::Lifetimes(f), 0, f.body.size()); }

// y = (x - mean) / mean of x's squares, in three nests; `kept`: the mean is an output as well.
void norm(NestMaker& m, const Expr* B, const Expr* R, const Expr* C, bool kept = false) {
  uint32_t x = m.array("x", DType::F32, {B, R, C});
  uint32_t mean = kept ? m.output("mean", DType::F32, {B, R}) : m.array("mean", DType::F32, {B, R}, nest::Array::Kind::Temp);
  uint32_t power = m.array("power", DType::F32, {B, R}, nest::Array::Kind::Temp);
  uint32_t y = m.output("y", DType::F32, {B, R, C});
  const auto row = [&] { return test::Dims{m.dim("b", B), m.dim("r", R), m.dim("c", C)}; };
  const auto at = [&](const test::Dims& d) { return m.load(x, {m.at(d[0]), m.at(d[1]), m.at(d[2])}); };
  auto d = row();
  m.map({d[0], d[1]}, mean, {m.at(d[0]), m.at(d[1])}, m.fold(Join::Sum, {d[2]}, m.ctx.binary(Op::Mul, at(d), m.ctx.number(0.125, DType::F32))));
  d = row();
  const Expr* off = m.ctx.binary(Op::Sub, at(d), m.load(mean, {m.at(d[0]), m.at(d[1])}));
  m.map({d[0], d[1]}, power, {m.at(d[0]), m.at(d[1])}, m.fold(Join::Max, {d[2]}, m.ctx.binary(Op::Mul, off, off)));
  d = row();
  off = m.ctx.binary(Op::Sub, at(d), m.load(mean, {m.at(d[0]), m.at(d[1])}));
  const Expr* scale = m.ctx.binary(Op::Add, m.load(power, {m.at(d[0]), m.at(d[1])}), m.ctx.number(1, DType::F32));
  m.map(d, y, {m.at(d[0]), m.at(d[1]), m.at(d[2])}, m.ctx.binary(Op::Div, off, scale));
  join_all(m.f);
}

// Attention under a mask: `open` says which keys a query looks at, all others get `fill`.
struct Masked {
  int64_t queries, keys;
  double fill;
  std::function<bool(int64_t query, int64_t key)> open;

  std::vector<nest::Tensor> inputs(const nest::Function& f, const test::Symbols& symbols) const {
    std::mt19937 rng(3);
    std::vector<nest::Tensor> made;
    for (uint32_t a : f.inputs) made.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols)));
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < keys; ++j) set(made[3], i * keys + j, open(i, j) ? 0 : fill);
    return made;
  }
  static void set(nest::Tensor& t, int64_t element, double value) {
    ir::Scalar v;
    v.f = value;
    ir::store_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(element), v);
  }
};

std::vector<nest::Tensor> interpreted(const nest::Function& f, const std::vector<nest::Tensor>& inputs, const test::Symbols& symbols) {
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  auto r = nest::interpret(f, inputs, options);
  REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
  return std::move(*r);
}

// Whether every loop that multiplies and adds stands in an If.
bool sums_are_conditional(const std::vector<loop::StmtPtr>& block) {
  return std::all_of(block.begin(), block.end(), [](const loop::StmtPtr& s) {
    if (s->kind == loop::StmtKind::If) return true;
    return !(s->kind == loop::StmtKind::Assign && s->value->op == Op::Fma) && sums_are_conditional(s->body);
  });
}

}  // namespace

TEST_CASE("nests that share their rows are a group with local arrays") {
  ir::Context ctx;
  NestMaker m(ctx);
  m.attention(4, 2, m.n(50), m.n(33), 8);
  const auto g = group(m.f);
  REQUIRE(g);
  REQUIRE(g->rows.size() == 2);
  CHECK(g->rows[0].dims[0]->name == "h");
  CHECK(g->rows[1].dims[5]->name == "i");
  CHECK(g->locals.size() == 5);
}

TEST_CASE("what others read, or what is an output, is no local array") {
  ir::Context ctx;
  NestMaker m(ctx);
  norm(m, m.n(2), m.n(5), m.n(9), /*kept=*/true);
  const auto g = group(m.f);
  REQUIRE(g);
  CHECK(g->locals.size() == 1);
}

TEST_CASE("a reader at another row, or at two rows, is no member") {
  for (const bool shifted : {true, false}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(8), C = m.n(4);
    uint32_t x = m.array("x", DType::F32, {R, C}), t = m.array("t", DType::F32, {R, C}, nest::Array::Kind::Temp), y = m.output("y", DType::F32, {R, C});
    auto r = m.dim("r", R), c = m.dim("c", C), a = m.dim("a", R), b = m.dim("b", C), k = m.dim("k", C);
    m.map({r, c}, t, {m.at(r), m.at(c)}, m.fold(Join::Sum, {k}, m.load(x, {m.at(r), m.at(k)})));
    const Expr* other = ctx.sub(m.n(7), m.at(a));
    const Expr* here = m.load(t, {shifted ? other : m.at(a), m.at(b)});
    const Expr* value = shifted ? here : ctx.binary(Op::Add, here, m.load(t, {other, m.at(b)}));
    m.map({a, b}, y, {m.at(a), m.at(b)}, value);
    join_all(m.f);
    const auto g = group(m.f);
    CHECK((!g || std::none_of(g->rows.begin(), g->rows.end(), [&](const nest::Group::Row& row) { return row.dims[0] == r; })));
    for (const char* target : kTargets) test::check_lowering(ctx, m.f, *targets::find_target(target));
  }
}

TEST_CASE("a fold that is the same for all rows does not write the rows that it reads") {
  for (const int64_t columns : {6, 40}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(6), C = m.n(columns);
    uint32_t x = m.array("x", DType::F32, {m.n(1), C}), t = m.array("t", DType::F32, {R, C}, nest::Array::Kind::Temp), y = m.output("y", DType::F32, {R});
    auto r = m.dim("r", R), c = m.dim("c", C), a = m.dim("a", R), k = m.dim("k", C);
    m.map({r, c}, t, {m.at(r), m.at(c)}, m.load(x, {m.n(0), m.at(c)}));
    const Expr* here = m.load(t, {m.at(a), m.at(k)});
    m.map({a}, y, {m.at(a)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, here, here)));
    join_all(m.f);
    REQUIRE(group(m.f));
    for (const char* target : kTargets) test::check_lowering(ctx, m.f, *targets::find_target(target));
  }
}

TEST_CASE("the mark survives printing and parsing") {
  ir::Context ctx;
  NestMaker m(ctx);
  norm(m, m.n(2), m.n(5), m.n(9));
  const std::string text = nest::print(m.f);
  ir::Context other;
  auto again = nest::parse(other, text);
  REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.status().text()));
  CHECK(!again->body[0].joins);
  CHECK(again->body[1].joins);
  CHECK(nest::print(*again) == text);
}

TEST_CASE("norms of any extents equal their nests one by one") {
  for (const char* target : kTargets)
    for (int64_t rows : {0, 1, 7, 8, 29})
      for (int64_t columns : {1, 16, 37})
        for (bool kept : {false, true}) {
          ir::Context ctx;
          NestMaker m(ctx);
          norm(m, m.n(2), m.n(rows), m.n(columns), kept);
          const auto schedules = test::check_lowering(ctx, m.f, *targets::find_target(target));
          CHECK(schedules.size() == 1);
        }
}

TEST_CASE("of long rows a block has as many as stay in the cache") {
  for (const auto& [columns, rows] : {std::pair<int64_t, int64_t>{1000, 8}, {4096, 4}, {100000, 1}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    norm(m, m.n(1), m.n(64), m.n(columns));
    const targets::Target& target = *targets::find_target("x86-64-v4");
    const auto kernels = lower::lower_group(ctx, m.f, *group(m.f), "norm", target, test::test_math);
    REQUIRE((kernels.ok() && *kernels));
    const auto& mean = (*kernels)->back().locals.front();
    REQUIRE(mean.count->is_const());
    CHECK(mean.count->i == rows);
  }
  for (const char* target : kTargets) {
    ir::Context ctx;
    NestMaker m(ctx);
    norm(m, m.n(2), m.n(5), m.n(6001));
    test::check_lowering(ctx, m.f, *targets::find_target(target));
  }
}

TEST_CASE("few long rows are worth a group, few short ones are not") {
  for (const auto& [rows, columns, joins] : {std::tuple<int64_t, int64_t, bool>{20, 30000, true}, {20, 2500, false}, {9, 30000, false}, {200, 2500, true}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    norm(m, m.n(1), m.n(rows), m.n(columns));
    for (nest::Statement& s : m.f.body) s.joins = false;
    const Status s = passes::run(ctx, m.f, {.pipeline = {"group"}});
    REQUIRE_MESSAGE(s.ok(), s.text());
    CHECK(m.f.body[1].joins == joins);
  }
}

TEST_CASE("attention of any extents equals its nests one by one") {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (int64_t queries : {1, 13, 48, 97})
      for (int64_t keys : {1, 16, 53}) {
        CAPTURE(queries);
        CAPTURE(keys);
        ir::Context ctx;
        NestMaker m(ctx);
        m.attention(4, 2, m.n(queries), m.n(keys), 8);
        join_all(m.f);
        const auto schedules = test::check_lowering(ctx, m.f, *targets::find_target(target));
        CHECK(schedules.size() <= 3);  // keys may be packed by kernels of their own: whole panels, the last one
      }
}

// y = d / (1 + sum of d^2), d = x - top of x, in four nests; `others`: a fifth one reads the tops as well.
void differences(NestMaker& m, const Expr* R, const Expr* C, bool others) {
  const auto temp = [&](const char* name, std::vector<const Expr*> shape) { return m.array(name, DType::F32, std::move(shape), nest::Array::Kind::Temp); };
  const uint32_t x = m.array("x", DType::F32, {R, C}), top = temp("top", {R}), d = temp("d", {R, C}), all = temp("all", {R}), y = m.output("y", DType::F32, {R, C});
  const auto nest = [&](uint32_t written, bool columns, const std::function<const Expr*(const Expr*, const Expr*)>& value) {
    auto r = m.dim("r", R), c = m.dim("c", C);
    if (columns) m.map({r, c}, written, {m.at(r), m.at(c)}, value(m.at(r), m.at(c)));
    else m.map({r}, written, {m.at(r)}, value(m.at(r), m.at(c)));
  };
  nest(top, false, [&](auto r, auto c) { return m.fold(Join::Max, {c->dim}, m.load(x, {r, c})); });
  nest(d, true, [&](auto r, auto c) { return m.ctx.binary(Op::Sub, m.load(x, {r, c}), m.load(top, {r})); });
  nest(all, false, [&](auto r, auto c) {
    const Expr* off = m.load(d, {r, c});
    return m.ctx.binary(Op::Add, m.fold(Join::Sum, {c->dim}, m.ctx.binary(Op::Mul, off, off)), m.ctx.number(1, DType::F32));
  });
  nest(y, true, [&](auto r, auto c) { return m.ctx.binary(Op::Div, m.load(d, {r, c}), m.load(all, {r})); });
  if (others) {
    const uint32_t z = m.output("z", DType::F32, {R, C});
    nest(z, true, [&](auto r, auto c) { return m.ctx.binary(Op::Mul, m.load(x, {r, c}), m.load(top, {r})); });
  }
  join_all(m.f);
}

size_t num_nests(const std::string& schedule, const std::string& family) {
  size_t count = 0;
  for (size_t at = 0; (at = schedule.find(family + " ", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_CASE("what is written for each row and folded at once goes by once") {
  for (const char* target : kTargets)
    for (const int64_t rows : {0, 1, 8, 29})
      for (const int64_t columns : {1, 64, 77, 300})
        for (const bool others : {false, true})
          for (const bool known : {true, false}) {
            CAPTURE(target);
            CAPTURE(rows);
            CAPTURE(columns);
            CAPTURE(others);
            ir::Context ctx;
            NestMaker m(ctx);
            const ir::Sym *R = ctx.declare_sym("R", 0, 1 << 20, 1), *C = ctx.declare_sym("C", 0, 1 << 20, 1);
            differences(m, known ? m.n(rows) : ctx.sym(R), known ? m.n(columns) : ctx.sym(C), others);
            const auto schedules = test::check_lowering(ctx, m.f, *targets::find_target(target), {{R, rows}, {C, columns}});
            // Long rows lie apart, so they are still rows.
            const bool joins = targets::find_target(target)->vector_registers >= 32;
            if (schedules.size() == 1 && rows > 1 && columns >= 64) CHECK(num_nests(schedules[0], "map") == (joins ? 3u : 4u) + others);
          }
}

TEST_CASE("the exponentials and the sum of attention are one nest") {
  for (const int64_t keys : {100, 256}) {
    ir::Context ctx;
    NestMaker m(ctx);
    m.attention(2, 1, m.n(61), m.n(keys), 16);
    join_all(m.f);
    const auto schedules = test::check_lowering(ctx, m.f, *targets::find_target("x86-64-v4"));
    CHECK(num_nests(schedules.back(), "map") + num_nests(schedules.back(), "product") == 5);  // scores, tops, these two, quotients, values
  }
}

TEST_CASE("extents that the run decides, down to none at all") {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (auto [queries, keys] : {std::pair{0, 5}, {5, 0}, {1, 1}, {1, 100}, {50, 7}, {61, 64}}) {
      CAPTURE(queries);
      CAPTURE(keys);
      ir::Context ctx;
      NestMaker m(ctx);
      const ir::Sym *L = ctx.declare_sym("L", 0, 1 << 20, 1), *U = ctx.declare_sym("U", 0, 1 << 20, 1);
      m.attention(2, 1, ctx.sym(L), ctx.sym(U), 16);
      join_all(m.f);
      test::check_lowering(ctx, m.f, *targets::find_target(target), {{L, queries}, {U, keys}});
    }
}

TEST_CASE("rows that are reshaped to free extents lie as they are, and dividing them takes no division") {
  for (const char* target : kTargets)
    for (auto [height, width] : {std::pair{0, 5}, {5, 0}, {1, 1}, {9, 40}, {33, 17}}) {
      ir::Context ctx;
      NestMaker m(ctx);
      const ir::Sym *B = ctx.declare_sym("B", 0, 99), *H = ctx.declare_sym("H", 0, 999), *W = ctx.declare_sym("W", 0, 999);
      const Expr *b = ctx.sym(B), *h = ctx.sym(H), *w = ctx.sym(W), *some = ctx.max(w, m.n(1));  // what W is where there are points
      const uint32_t x = m.array("x", DType::F32, {b, h, w}), t = m.array("t", DType::F32, {b, h, some}, nest::Array::Kind::Temp), y = m.output("y", DType::F32, {b, w, h});
      auto first = test::Dims{m.dim("b", b), m.dim("h", h), m.dim("w", w)}, second = test::Dims{m.dim("b", b), m.dim("w", w), m.dim("h", h)};
      const std::vector<const Expr*> from{m.at(first[0]), m.at(first[1]), m.at(first[2])}, to{m.at(second[0]), m.at(second[1]), m.at(second[2])};
      m.map(first, t, from, ctx.binary(Op::Mul, m.load(x, from), ctx.number(2, DType::F32)));
      const Expr* i = ctx.add(ctx.mul(to[1], h), to[2]);
      m.map(second, y, to, m.load(t, {to[0], ctx.floordiv(i, w), ctx.floormod(i, w)}, ir::Access::Checked));
      join_all(m.f);
      REQUIRE(group(m.f));
      size_t count = 0;
      for (const loop::Kernel& kernel : test::lowered_at(ctx, m.f, nest::Lifetimes(m.f), 0, *targets::find_target(target), test::test_math, count)) {
        const std::string text = loop::to_string(kernel), body = text.substr(text.find("store "));
        if (count > 1) CHECK_MESSAGE(body.find("floormod") == std::string::npos, body);
      }
      test::check_lowering(ctx, m.f, *targets::find_target(target), {{B, 3}, {H, height}, {W, width}});
    }
}

TEST_CASE("a row that needs more than the cache still has a block") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym* U = ctx.declare_sym("U", 0, 1 << 20, 1);
  m.attention(1, 1, m.n(9), ctx.sym(U), 4);
  join_all(m.f);
  test::check_lowering(ctx, m.f, *targets::find_target("x86-64-v4"), {{U, 20000}}, 1, 1e-4);
}

TEST_CASE("attention under a mask equals its nests, whatever the mask leaves open") {
  constexpr double kNone = -std::numeric_limits<double>::infinity(), kLowest = std::numeric_limits<float>::lowest();
  const std::pair<const char*, std::function<bool(int64_t, int64_t)>> kOpen[] = {
      {"causal", [](int64_t i, int64_t j) { return j <= i + 3; }},
      {"a window", [](int64_t i, int64_t j) { return j <= i && j > i - 20; }},
      {"the first keys", [](int64_t, int64_t j) { return j < 17; }},
      {"the last keys", [](int64_t, int64_t j) { return j >= 70; }},
      {"one here and there", [](int64_t i, int64_t j) { return j % 64 == i % 64; }},
      {"no key of some rows", [](int64_t i, int64_t j) { return i % 5 != 0 && j <= i; }}};
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 100}, {50, 1}, {61, 64}, {53, 131}, {0, 64}};
  constexpr double kFills[] = {kNone, kLowest, -10000.0};
  size_t turn = 0;
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (const auto& [name, open] : kOpen)
      for (const auto& [queries, keys] : kSizes) {
        const double fill = kFills[++turn % 3];
        const bool known = turn % 2 == 0;
        CAPTURE(target);
        CAPTURE(name);
        CAPTURE(queries);
        CAPTURE(keys);
        CAPTURE(fill);
        CAPTURE(known);
        ir::Context ctx;
        NestMaker m(ctx);
        const ir::Sym *L = ctx.declare_sym("L", 0, 1 << 20, 1), *U = ctx.declare_sym("U", 0, 1 << 20, 1);
        const test::Symbols symbols{{L, queries}, {U, keys}};
        m.attention(2, 1, known ? m.n(queries) : ctx.sym(L), known ? m.n(keys) : ctx.sym(U), 16);
        join_all(m.f);
        const auto inputs = Masked{queries, keys, fill, open}.inputs(m.f, symbols);
        const nest::Tensor want = interpreted(m.f, inputs, symbols)[0];
        const auto got = test::run_lowered(ctx, m.f, inputs, *targets::find_target(target), symbols, test::vanishing_exp);
        CHECK(got.fault == 0);
        const test::Difference d = test::difference(want, got.outputs[0]);
        CHECK(d.error <= 4e-5 * std::max(d.largest, 1.0));
        const auto uncut = test::run_lowered(ctx, m.f, inputs, *targets::find_target(target), symbols, test::vanishing_exp, 1);
        CHECK(uncut.outputs[0].bytes == got.outputs[0].bytes);
      }
}

TEST_CASE("values of keys that no row of a tile looks at are not read") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (const bool last : {true, false}) {
      CAPTURE(target);
      ir::Context ctx;
      NestMaker m(ctx);
      const int64_t queries = 30, keys = 150, depth = 16;
      m.attention(1, 1, m.n(queries), m.n(keys), depth);
      join_all(m.f);
      const auto open = [&](int64_t, int64_t j) { return last ? j < 60 : j >= 101; };
      auto inputs = Masked{queries, keys, -kInfinity, open}.inputs(m.f, {});
      const nest::Tensor want = interpreted(m.f, inputs, {})[0];
      // Zero times infinity would be no number; what lies in whole vectors that are masked counts for nothing.
      for (int64_t j = last ? 64 : 0; j < (last ? keys : 96); ++j)
        for (int64_t d = 0; d < depth; ++d) Masked::set(inputs[2], j * depth + d, kInfinity);
      const auto got = test::run_lowered(ctx, m.f, inputs, *targets::find_target(target), {}, test::vanishing_exp);
      const test::Difference d = test::difference(want, got.outputs[0]);
      CHECK(d.error <= 4e-5 * std::max(d.largest, 1.0));
    }
}

TEST_CASE("sums that a comparison of row and column masks are not made, and nothing else changes") {
  // s[i, j] = select(seen, sum q[i, d] * k[j, d], fill), where `seen` is linear in i and j, or part of it is, or nothing.
  enum Kind { Causal, Window, NotBefore, WithArray, Elsewhere, Product };
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (const Kind kind : {Causal, Window, NotBefore, WithArray, Elsewhere, Product})
      for (const auto& [queries, keys] : {std::pair{1, 70}, {61, 64}, {53, 131}, {0, 64}, {64, 0}})
        for (const bool known : {true, false}) {
          CAPTURE(target);
          CAPTURE(kind);
          CAPTURE(queries);
          CAPTURE(keys);
          ir::Context ctx;
          NestMaker m(ctx);
          const ir::Sym *L = ctx.declare_sym("L", 0, 1 << 20, 1), *U = ctx.declare_sym("U", 0, 1 << 20, 1);
          const Expr *rows = known ? m.n(queries) : ctx.sym(L), *columns = known ? m.n(keys) : ctx.sym(U), *depth = m.n(24);
          const uint32_t q = m.array("q", DType::F32, {rows, depth}), k = m.array("k", DType::F32, {columns, depth}),
                         open = m.array("open", DType::I64, {columns}), s = m.output("s", DType::F32, {rows, columns});
          auto i = m.dim("i", rows), j = m.dim("j", columns), d = m.dim("d", depth);
          const Expr* sum = m.fold(Join::Sum, {d}, ctx.binary(Op::Mul, m.load(q, {m.at(i), m.at(d)}), m.load(k, {m.at(j), m.at(d)})));
          const Expr* causal = ctx.binary(Op::Le, m.at(j), ctx.add(m.at(i), m.n(5)));
          const auto both = [&](const Expr* a, const Expr* b) { return ctx.binary(Op::And, a, b); };
          const Expr* fill = ctx.number(-std::numeric_limits<double>::infinity(), DType::F32);
          const Expr* value = ctx.select(causal, sum, fill);
          if (kind == Window) value = ctx.select(both(causal, ctx.binary(Op::Lt, ctx.sub(m.at(i), m.n(9)), m.at(j))), sum, fill);
          if (kind == NotBefore) value = ctx.select(ctx.binary(Op::Lt, m.at(j), ctx.mul(m.n(2), m.at(i))), fill, sum);
          if (kind == WithArray) value = ctx.select(both(causal, ctx.binary(Op::Lt, m.load(open, {m.at(j)}), m.n(3))), sum, fill);
          if (kind == Elsewhere) value = ctx.binary(Op::Add, ctx.select(causal, sum, ctx.number(3, DType::F32)), ctx.binary(Op::Mul, sum, sum));
          if (kind == Product) value = ctx.select(ctx.binary(Op::Lt, ctx.mul(m.at(i), m.at(j)), m.n(700)), sum, fill);
          m.map({i, j}, s, {m.at(i), m.at(j)}, value);
          test::check_lowering(ctx, m.f, *targets::find_target(target), {{L, queries}, {U, keys}});

          if (known) continue;
          const auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target(target), test::test_math);
          REQUIRE(kernels.ok());
          CHECK(sums_are_conditional(kernels->back().body) == (kind != Elsewhere && kind != Product));
        }
}

// A window of 2 * pad + 1 points along the axes from `first` to `last` of x[n, c, i, j], what lies outside left out; then the sum over
// all channels of what it gives, and a third nest that divides one by the other.
void window_then_channels(NestMaker& m, Join join, std::vector<const Expr*> shape, size_t first, size_t last, int64_t pad) {
  const nest::Layout channels_last = nest::permuted({0, 2, 3, 1});
  const uint32_t x = m.array("x", DType::F32, shape), w = m.array("w", DType::F32, shape, nest::Array::Kind::Temp),
                 all = m.array("all", DType::F32, {shape[0], shape[2], shape[3]}, nest::Array::Kind::Temp), y = m.output("y", DType::F32, shape);
  for (uint32_t a : {x, w, y}) m.f.arrays[a].layout = channels_last;
  const auto point = [&] { return test::Dims{m.dim("n", shape[0]), m.dim("c", shape[1]), m.dim("i", shape[2]), m.dim("j", shape[3])}; };
  const auto at = [&](const test::Dims& d) { return std::vector<const Expr*>{m.at(d[0]), m.at(d[1]), m.at(d[2]), m.at(d[3])}; };
  test::Dims d = point(), taps;
  std::vector<const Expr*> place = at(d);
  const Expr* where = nullptr;
  for (size_t axis = first; axis <= last; ++axis) {
    taps.push_back(m.dim("t", m.n(2 * pad + 1)));
    place[axis] = m.ctx.add(place[axis], m.ctx.add(m.at(taps.back()), m.n(-pad)));
    const Expr* inside = m.within(place[axis], shape[axis]);
    where = where ? m.ctx.binary(Op::And, where, inside) : inside;
  }
  m.map(d, w, at(d), m.fold(join, taps, m.load(x, place), where));
  d = point();
  m.map({d[0], d[2], d[3]}, all, {m.at(d[0]), m.at(d[2]), m.at(d[3])}, m.fold(Join::Sum, {d[1]}, m.load(w, at(d))));
  d = point();
  const Expr* divisor = m.ctx.binary(Op::Add, m.ctx.unary(Op::Abs, m.load(all, {m.at(d[0]), m.at(d[2]), m.at(d[3])})), m.ctx.number(1, DType::F32));
  m.map(d, y, at(d), m.ctx.binary(Op::Div, m.load(w, at(d)), divisor));
  join_all(m.f);
}

TEST_CASE("a window whose rows a group divides has all of its taps, at the edges too") {
  struct Window {
    size_t first, last;
    int64_t pad;
  };
  constexpr Window kWindows[] = {{2, 3, 1}, {2, 3, 2}, {1, 1, 2}};  // pictures, channels (as in LRN)
  for (const char* target : kTargets)
    for (const auto& [height, width] : {std::pair{20, 24}, {6, 6}, {1, 9}})
      for (const int64_t channels : {3, 16})
        for (const Window& window : kWindows)
          for (const bool known : {true, false}) {
            if (!known && (height != 6 || channels != 16)) continue;
            CAPTURE(target);
            CAPTURE(height);
            CAPTURE(width);
            CAPTURE(channels);
            CAPTURE(window.first);
            CAPTURE(window.pad);
            ir::Context ctx;
            NestMaker m(ctx);
            const ir::Sym *H = ctx.declare_sym("H", 0, 1 << 20, 1), *W = ctx.declare_sym("W", 0, 1 << 20, 1);
            window_then_channels(m, window.pad == 2 ? Join::Sum : Join::Max, {m.n(2), m.n(channels), known ? m.n(height) : ctx.sym(H), known ? m.n(width) : ctx.sym(W)},
                                 window.first, window.last, window.pad);
            test::check_lowering(ctx, m.f, *targets::find_target(target), {{H, height}, {W, width}});
          }
}

TEST_CASE("what a group computes and others read as well is not packed before it is there") {
  for (const char* target : kTargets)
    for (const int64_t batch : {1, 2, 3})
      for (const bool columns : {false, true}) {
        CAPTURE(target);
        CAPTURE(batch);
        CAPTURE(columns);
        ir::Context ctx;
        NestMaker m(ctx);
        const Expr *B = m.n(batch), *R = m.n(33), *C = m.n(24), *side = columns ? C : R;
        const uint32_t x = m.array("x", DType::F32, {B, R, C}), a = m.output("a", DType::F32, {B, R, C}), y = m.output("y", DType::F32, {B, side, side});
        auto b = m.dim("b", B), r = m.dim("r", R), c = m.dim("c", C);
        m.map({b, r, c}, a, {m.at(b), m.at(r), m.at(c)}, ctx.binary(Op::Max, m.load(x, {m.at(b), m.at(r), m.at(c)}), ctx.number(0, DType::F32)));
        auto i = m.dim("i", side), j = m.dim("j", side), k = m.dim("k", columns ? R : C), d = m.dim("b", B);
        const auto of = [&](const ir::Dim* s) { return columns ? m.load(a, {m.at(d), m.at(k), m.at(s)}) : m.load(a, {m.at(d), m.at(s), m.at(k)}); };
        m.map({d, i, j}, y, {m.at(d), m.at(i), m.at(j)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, of(i), of(j))));
        join_all(m.f);
        REQUIRE(group(m.f));
        test::check_lowering(ctx, m.f, *targets::find_target(target));
      }
}

TEST_CASE("channels that lie side by side are the lanes of a row and no rows") {
  for (const char* target : kTargets)
    for (const auto& [side, channels] : {std::pair{9, 48}, {6, 5}, {1, 16}}) {
      CAPTURE(target);
      CAPTURE(side);
      CAPTURE(channels);
      ir::Context ctx;
      NestMaker m(ctx);
      const std::vector<const Expr*> shape{m.n(2), m.n(channels), m.n(side), m.n(side)};
      const uint32_t x = m.array("x", DType::F32, shape), a = m.array("a", DType::F32, shape, nest::Array::Kind::Temp), y = m.output("y", DType::F32, shape);
      for (const uint32_t array : {x, a, y}) m.f.arrays[array].layout = nest::permuted({0, 2, 3, 1});
      // A window of each channel, as of a depthwise convolution, and another one beside its answer.
      const auto window = [&](int64_t reach, const test::Dims& d) {
        const ir::Dim* t = m.dim("t", m.n(reach));
        const Expr* row = ctx.add(m.at(d[2]), m.at(t));
        return m.fold(Join::Sum, {t}, m.load(x, {m.at(d[0]), m.at(d[1]), row, m.at(d[3])}), m.within(row, shape[2]));
      };
      const auto point = [&] { return test::Dims{m.dim("b", shape[0]), m.dim("c", shape[1]), m.dim("h", shape[2]), m.dim("w", shape[3])}; };
      const auto at = [&](const test::Dims& d) { return std::vector<const Expr*>{m.at(d[0]), m.at(d[1]), m.at(d[2]), m.at(d[3])}; };
      test::Dims d = point();
      m.map(d, a, at(d), window(3, d));
      d = point();
      m.map(d, y, at(d), ctx.add(window(2, d), m.load(a, at(d))));
      join_all(m.f);
      const auto found = group(m.f);
      REQUIRE(found);
      CHECK(found->rows.size() == 3);
      for (const nest::Group::Row& row : found->rows) CHECK(row.dims[1] != d[1]);
      test::check_lowering(ctx, m.f, *targets::find_target(target));
    }
}
