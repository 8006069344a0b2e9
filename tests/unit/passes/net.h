// Functions of convolutions, normalisations and maps, and the passes over them.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "packager/passes/passes.h"
#include "tests/support/nests/nest_builder.h"

namespace mlc::test {

struct Net : NestBuilder {
  uint32_t constant(std::string name, std::vector<int64_t> shape, const std::vector<float>& values) {
    std::vector<const Expr*> extents;
    for (int64_t e : shape) extents.push_back(k(e));
    uint32_t n = array(std::move(name), DType::F32, extents, Array::Kind::Const);
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * 4);
    std::memcpy(bytes->data(), values.data(), bytes->size());
    fn.arrays[n].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    return n;
  }
  uint32_t random_constant(std::string name, std::vector<int64_t> shape, unsigned seed) {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return constant(std::move(name), shape, numbers(static_cast<size_t>(n), seed));
  }
  std::vector<const Dim*> dims_of(uint32_t a) {
    std::vector<const Dim*> dims;
    for (const Expr* e : fn.arrays[a].shape) dims.push_back(dim("d", e));
    return dims;
  }
  std::vector<const Expr*> at(const std::vector<const Dim*>& dims) {
    std::vector<const Expr*> out;
    for (const Dim* x : dims) out.push_back(d(x));
    return out;
  }
  uint32_t temp_like(const std::string& name, uint32_t a) { return array(name, fn.arrays[a].dtype, fn.arrays[a].shape); }
  // y = op(x), element by element.
  uint32_t map(const std::string& name, std::vector<uint32_t> xs, const std::function<const Expr*(std::vector<const Expr*>)>& op) {
    uint32_t y = temp_like(name, xs[0]);
    auto dims = dims_of(y);
    std::vector<const Expr*> loads;
    for (uint32_t x : xs) loads.push_back(load(x, at(dims)));
    nest(name, dims, {{y, at(dims), op(loads)}});
    return y;
  }
  uint32_t relu(const std::string& name, uint32_t x) {
    return map(name, {x}, [&](auto v) { return ctx.binary(Op::Max, v[0], r(0)); });
  }
  uint32_t add(const std::string& name, uint32_t a, uint32_t b) {
    return map(name, {a, b}, [&](auto v) { return ctx.binary(Op::Add, v[0], v[1]); });
  }
  uint32_t conv(const std::string& name, uint32_t x, uint32_t w, int64_t pad, int64_t groups = 1) {
    auto xs = fn.arrays[x].shape, ws = fn.arrays[w].shape;
    auto out = [&](int a) { return ctx.add(ctx.sub(ctx.add(xs[static_cast<size_t>(a)], k(2 * pad)), ws[static_cast<size_t>(a)]), k(1)); };
    uint32_t y = array(name, DType::F32, {xs[0], ws[0], out(2), out(3)});
    auto b = dim("b", xs[0]), p = dim("p", out(2)), q = dim("q", out(3)), c = dim("c", ws[1]), u = dim("u", ws[2]), v = dim("v", ws[3]);
    auto g = dim("g", groups), m = dim("m", ctx.floordiv(ws[0], k(groups)));
    const Expr* n = ctx.add(ctx.mul(d(g), m->extent), d(m));
    const Expr* channel = ctx.add(ctx.mul(d(g), ws[1]), d(c));
    if (groups == 1) {
      n = d(m);
      channel = d(c);
    }
    auto row = ctx.sub(ctx.add(d(p), d(u)), k(pad)), col = ctx.sub(ctx.add(d(q), d(v)), k(pad));
    auto inside = [&](const Expr* e, const Expr* extent) { return ctx.logical_and(ctx.binary(Op::Le, k(0), e), ctx.binary(Op::Lt, e, extent)); };
    auto product = ctx.binary(Op::Mul, load(x, {d(b), channel, row, col}), load(w, {n, d(c), d(u), d(v)}));
    auto where = ctx.logical_and(inside(row, xs[2]), inside(col, xs[3]));
    auto sum = ctx.fold({ctx.builtin(Join::Sum), {c, u, v}, where}, {product});
    std::vector<const Dim*> dims{b, m, p, q};
    if (groups > 1) dims.insert(dims.begin() + 1, g);
    nest(name, dims, {{y, {d(b), n, d(p), d(q)}, sum}});
    return y;
  }
  uint32_t batch_norm(const std::string& name, uint32_t x, int64_t channels, unsigned seed) {
    auto s = random_constant(name + ".scale", {channels}, seed), b = random_constant(name + ".b", {channels}, seed + 1),
         m = random_constant(name + ".mean", {channels}, seed + 2), var = random_constant(name + ".var", {channels}, seed + 3);
    uint32_t y = temp_like(name, x);
    auto dims = dims_of(y);
    auto c = d(dims[1]);
    auto inv = ctx.unary(Op::Sqrt, ctx.binary(Op::Add, ctx.unary(Op::Abs, load(var, {c})), r(1e-2)));
    auto value = ctx.binary(Op::Add, ctx.binary(Op::Mul, ctx.binary(Op::Div, ctx.binary(Op::Sub, load(x, at(dims)), load(m, {c})), inv), load(s, {c})), load(b, {c}));
    nest(name, dims, {{y, at(dims), value}});
    return y;
  }
  void finish(uint32_t y) { fn.outputs.push_back(y); }
  Status optimise(std::vector<std::string> pipeline = passes::default_pipeline()) {
    passes::Options o;
    o.pipeline = std::move(pipeline);
    o.check = true;
    return passes::run(ctx, fn, o);
  }
};

}  // namespace mlc::test

#define REQUIRE_OK(status)                                         \
  do {                                                             \
    Status s_ = (status);                                          \
    std::string t_ = s_.ok() ? "" : s_.message;                    \
    for (const std::string& f_ : s_.facts) t_ += "\n" + f_;        \
    REQUIRE_MESSAGE(s_.ok(), t_);                                  \
  } while (0)
