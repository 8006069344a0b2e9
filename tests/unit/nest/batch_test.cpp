#include "packager/nest/facts/batch.h"

#include <doctest/doctest.h>

#include <cstring>

#include "packager/ir/numeric.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Batch : NestBuilder {
  const Sym* n = ctx.declare_sym("N", 1, 1000000);
  const Expr* rows = ctx.sym(n);
  const Dim *i = ctx.declare_dim("i", rows), *j = dim("j", 4), *c = dim("c", 6);
  uint32_t x = input("x", DType::F32, {rows, k(6)}), y = output("y", DType::F32, {rows, k(4)});

  void map(const Expr* value) { nest("y", {i, j}, {{y, {d(i), d(j)}, value}}); }
  const Expr* sum(const Dim* over, const Expr* value) { return ctx.fold({ctx.builtin(Join::Sum), {over}, nullptr}, {value}); }
  const Expr* row() { return load(x, {d(i), d(j)}); }

  // What is proved is true: two runs of some rows give what a run of all of them gives, bit for bit.
  void proved() {
    REQUIRE(independent_rows(ctx, fn) == n);
    const size_t count = 7, first = 3;
    const std::vector<float> values = test::numbers(count * 6, 5);
    const auto run_rows = [&](size_t from, size_t to) {
      std::vector<Tensor> inputs;
      for (const uint32_t in : fn.inputs) {
        const bool has_rows = fn.arrays[in].shape[0] == rows;
        std::vector<int64_t> shape;
        for (const Expr* e : fn.arrays[in].shape) shape.push_back(e->is_const() ? e->i : static_cast<int64_t>(to - from));
        Tensor t = Tensor::zeros(fn.arrays[in].dtype, shape);
        const size_t skip = has_rows ? from * t.bytes.size() / (to - from) : 0;
        for (size_t e = 0; e < static_cast<size_t>(t.elements()); ++e) {
          const size_t at = e + skip / (t.bytes.size() / static_cast<size_t>(t.elements()));
          ir::store_element(t.dtype, t.bytes.data(), e, {static_cast<int64_t>(at % 5), static_cast<double>(values[at % values.size()])});
        }
        inputs.push_back(std::move(t));
      }
      auto out = run(inputs);
      REQUIRE_MESSAGE(out.ok(), (out.ok() ? std::string() : out.status().message));
      return std::move(*out);
    };
    const auto all = run_rows(0, count), head = run_rows(0, first), tail = run_rows(first, count);
    for (size_t o = 0; o < all.size(); ++o) {
      REQUIRE(all[o].bytes.size() == head[o].bytes.size() + tail[o].bytes.size());
      CHECK(std::memcmp(all[o].bytes.data(), head[o].bytes.data(), head[o].bytes.size()) == 0);
      CHECK(std::memcmp(all[o].bytes.data() + head[o].bytes.size(), tail[o].bytes.data(), tail[o].bytes.size()) == 0);
    }
  }
  void not_proved() { CHECK(independent_rows(ctx, fn) == nullptr); }
};

}  // namespace

TEST_CASE_FIXTURE(Batch, "products with weights, and all that looks at its own row") {
  const auto w = input("w", DType::F32, {k(6), k(4)}), t = array("t", DType::F32, {rows, k(4)});
  nest("t", {i, j}, {{t, {d(i), d(j)}, sum(c, ctx.binary(Op::Mul, load(x, {d(i), d(c)}), load(w, {d(c), d(j)})))}});
  const Dim* l = dim("l", 4);
  map(ctx.binary(Op::Sub, load(t, {d(i), d(j)}), ctx.fold({ctx.builtin(Join::Max), {l}, nullptr}, {load(t, {d(i), d(l)})})));
  proved();
}

TEST_CASE_FIXTURE(Batch, "rows that become several, or one of several, and axes that change places") {
  const auto flat = array("flat", DType::F32, {ctx.mul(rows, k(6))}), turned = array("turned", DType::F32, {k(3), ctx.mul(rows, k(2))});
  const Dim *e = dim("e", ctx.mul(rows, k(6))), *three = dim("three", 3), *pair = dim("pair", ctx.mul(rows, k(2)));
  nest("flat", {e}, {{flat, {d(e)}, load(x, {ctx.floordiv(d(e), k(6)), ctx.floormod(d(e), k(6))})}});
  nest("turned", {three, pair}, {{turned, {d(three), d(pair)}, load(flat, {ctx.add(ctx.mul(d(pair), k(3)), d(three))})}});
  const Expr* at = ctx.floormod(d(j), k(2));
  map(load(turned, {ctx.floormod(d(j), k(3)), ctx.add(ctx.mul(d(i), k(2)), at)}));
  proved();
}

TEST_CASE_FIXTURE(Batch, "a table that all rows read, wherever their own numbers say") {
  const auto table = input("table", DType::F32, {k(5), k(4)}), ids = input("ids", DType::I64, {rows});
  map(ctx.add(row(), load(table, {load(ids, {d(i)}), d(j)}, Access::Checked)));
  proved();
}

TEST_CASE_FIXTURE(Batch, "what stands beside rows is no matter, as long as it knows nothing of them") {
  const auto w = input("w", DType::F32, {k(6)}), least = array("least", DType::F32, {});
  nest("least", {}, {{least, {}, ctx.fold({ctx.builtin(Join::Min), {c}, nullptr}, {load(w, {d(c)})})}});
  map(ctx.add(row(), load(least, {})));
  proved();
}

TEST_CASE_FIXTURE(Batch, "no: a fold over the rows") {
  const Dim* all = dim("all", rows);
  map(ctx.add(row(), sum(all, load(x, {d(all), d(j)}))));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: how many rows there are") {
  map(ctx.add(row(), ctx.cast(DType::F32, rows)));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: which row it is") {
  map(ctx.add(row(), ctx.cast(DType::F32, d(i))));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: a table that is read at the number of the row") {
  const auto table = input("table", DType::F32, {k(5), k(4)});
  map(ctx.add(row(), load(table, {ctx.floormod(d(i), k(5)), d(j)})));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: another row") {
  map(load(x, {ctx.sub(ctx.sub(rows, k(1)), d(i)), d(j)}));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: rows that others choose") {
  const auto ids = input("ids", DType::I64, {rows});
  map(load(x, {load(ids, {d(i)}), d(j)}, Access::Checked));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: pieces that are no rows") {
  const auto flat = array("flat", DType::F32, {ctx.mul(rows, k(6))});
  const Dim* e = dim("e", ctx.mul(rows, k(6)));
  nest("flat", {e}, {{flat, {d(e)}, load(x, {ctx.floordiv(d(e), k(6)), ctx.floormod(d(e), k(6))})}});
  map(load(flat, {ctx.add(ctx.mul(d(i), k(5)), d(j))}));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: a running sum along the rows") {
  map(row());
  fn.body.back().nest->scan_dim = i;
  fn.body.back().nest->scan_combiner = ctx.builtin(Join::Sum);
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: rows that meet in what all of them read") {
  const auto counts = array("counts", DType::F32, {k(4)});
  nest("zero", {j}, {{counts, {d(j)}, r(0)}});
  nest("count", {i, j}, {{counts, {d(j)}, row(), true, Join::Sum}});
  map(ctx.add(row(), load(counts, {d(j)})));
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: a result that is not made of rows") {
  map(row());
  const auto z = output("z", DType::F32, {k(4)});
  nest("z", {j}, {{z, {d(j)}, r(1)}});
  not_proved();
}
TEST_CASE_FIXTURE(Batch, "no: a condition on the number of rows") {
  map(row());
  fn.checks.push_back({ctx.binary(Op::Le, k(2), rows), "two rows at least"});
  not_proved();
}
