// Small nest functions for tests and benchmarks of lowering: products, convolutions, pooling, in the layouts that the
// compiler gives them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::test {

using ir::Expr;
using Dims = std::vector<const ir::Dim*>;

class NestMaker {
 public:
  explicit NestMaker(ir::Context& ctx) : ctx(ctx) { f.name = "test"; }

  uint32_t array(std::string name, DType t, std::vector<const Expr*> shape,
                 nest::Array::Kind kind = nest::Array::Kind::Input) {
    nest::Array a;
    a.name = std::move(name);
    a.kind = kind;
    a.dtype = t;
    a.shape = std::move(shape);
    f.arrays.push_back(std::move(a));
    uint32_t id = static_cast<uint32_t>(f.arrays.size() - 1);
    if (kind == nest::Array::Kind::Input) f.inputs.push_back(id);
    return id;
  }
  uint32_t output(std::string name, DType t, std::vector<const Expr*> shape) {
    uint32_t id = array(std::move(name), t, std::move(shape), nest::Array::Kind::Temp);
    f.outputs.push_back(id);
    return id;
  }
  const Expr* n(int64_t v) { return ctx.integer(v); }
  const ir::Dim* dim(std::string name, const Expr* extent) { return ctx.declare_dim(std::move(name), extent); }
  const Expr* at(const ir::Dim* d) { return ctx.dim(d); }
  const Expr* load(uint32_t a, std::vector<const Expr*> index, ir::Access access = ir::Access::Proved) {
    return ctx.load(a, {f.arrays[a].dtype, 1}, std::move(index), access);
  }
  const Expr* fold(ir::Join join, Dims dims, const Expr* body, const Expr* where = nullptr) {
    return ctx.fold({ctx.builtin(join), std::move(dims), where}, {body});
  }
  const Expr* within(const Expr* i, const Expr* extent) {  // 0 <= i < extent
    return ctx.binary(ir::Op::And, ctx.binary(ir::Op::Le, n(0), i), ctx.binary(ir::Op::Lt, i, extent));
  }
  nest::Nest& map(Dims dims, uint32_t out, std::vector<const Expr*> index, const Expr* value,
                  std::string source = "map") {
    nest::Statement s;
    s.source = std::move(source);
    s.nest = std::make_unique<nest::Nest>();
    s.nest->dims = std::move(dims);
    nest::Write w;
    w.array = out;
    w.index = std::move(index);
    w.value = value;
    s.nest->writes.push_back(std::move(w));
    f.body.push_back(std::move(s));
    return *f.body.back().nest;
  }

  DType type = DType::F32;  // that products and convolutions sum in

  // y[m, n] = act(sum x[m, k] * w[k, n] + b[n]); w in panels.
  // Elements of 16 bits are summed in f32, as the operator language says.
  // Weights of 16 bits as processors that multiply pairs have them: panels of sixteen columns, two neighbours along the depth side by side.
  void in_pairs(uint32_t weights) { f.arrays[weights].layout.pieces = {{1, 16, 0}, {0, 2, 0}, {1, 1, 16}, {0, 1, 2}}; }

  void matmul(const Expr* M, const Expr* K, const Expr* N, bool panels = true, bool relu = true, std::optional<DType> factors = {}) {
    uint32_t x = array("x", factors.value_or(type), {M, K}), w = array("w", factors.value_or(type), {K, N}), b = array("b", type, {N});
    uint32_t y = output("y", type, {M, N});
    if (panels) f.arrays[w].layout.pieces = {{1, 16, 0}, {0, 1, 0}, {1, 1, 16}};
    auto m = dim("m", M), k = dim("k", K), c = dim("n", N);
    const Expr* sum =
        fold(ir::Join::Sum, {k}, ctx.binary(ir::Op::Mul, ctx.cast(type, load(x, {at(m), at(k)})), ctx.cast(type, load(w, {at(k), at(c)}))));
    const Expr* v = ctx.binary(ir::Op::Add, sum, load(b, {at(c)}));
    if (relu) v = ctx.binary(ir::Op::Max, v, ctx.number(0, type));
    map({m, c}, y, {at(m), at(c)}, v, "matmul");
  }

  struct Conv {
    int64_t n = 1, h = 8, w = 8, c = 16, m = 16, kh = 3, kw = 3, stride = 1, pad = 1, dilation = 1, group = 1;
    bool channels_last = true, panels = true, residual = false;
  };
  // y[n, (g m), p, q] = relu(b + sum x[n, (g c), p*s + u*d - pad, ..] * w[(g m), c, u, v] (+ r)); sizes H, W may be
  // symbols.
  void conv(const Conv& p, const Expr* H = nullptr, const Expr* W = nullptr, const Expr* batch = nullptr) {
    if (!H) H = n(p.h);
    if (!W) W = n(p.w);
    if (!batch) batch = n(p.n);
    auto out = [&](const Expr* in, int64_t k) {
      return ctx.add(ctx.floordiv(ctx.add(in, n(2 * p.pad - (k - 1) * p.dilation - 1)), n(p.stride)), n(1));
    };
    const Expr *P = out(H, p.kh), *Q = out(W, p.kw);
    uint32_t x = array("x", type, {batch, n(p.c), H, W});
    uint32_t w = array("w", type, {n(p.m), n(p.c / p.group), n(p.kh), n(p.kw)});
    uint32_t b = array("b", type, {n(p.m)});
    uint32_t r = p.residual ? array("r", type, {batch, n(p.m), P, Q}) : 0;
    uint32_t y = output("y", type, {batch, n(p.m), P, Q});
    const nest::Layout last = nest::permuted({0, 2, 3, 1});
    if (p.channels_last) {
      f.arrays[x].layout = f.arrays[y].layout = last;
      if (p.residual) f.arrays[r].layout = last;
    }
    if (p.panels) f.arrays[w].layout.pieces = {{2, 1, 0}, {3, 1, 0}, {0, 16, 0}, {1, 1, 0}, {0, 1, 16}};
    else if (p.group == p.m && p.group == p.c) f.arrays[w].layout = nest::permuted({2, 3, 0, 1});  // [taps][channels]
    auto dn = dim("n", batch), dg = dim("g", n(p.group)), dm = dim("m", n(p.m / p.group)), dp = dim("p", P),
         dq = dim("q", Q);
    auto dc = dim("c", n(p.c / p.group)), du = dim("u", n(p.kh)), dv = dim("v", n(p.kw));
    auto place = [&](const ir::Dim* o, const ir::Dim* k) {
      return ctx.add(ctx.add(ctx.mul(at(o), n(p.stride)), ctx.mul(at(k), n(p.dilation))), n(-p.pad));
    };
    const Expr *ih = place(dp, du), *iw = place(dq, dv);
    const Expr* cin = ctx.add(ctx.mul(at(dg), n(p.c / p.group)), at(dc));
    const Expr* cout = ctx.add(ctx.mul(at(dg), n(p.m / p.group)), at(dm));
    const Expr* body = ctx.binary(ir::Op::Mul, load(x, {at(dn), cin, ih, iw}), load(w, {cout, at(dc), at(du), at(dv)}));
    const Expr* where = p.pad ? ctx.binary(ir::Op::And, within(ih, H), within(iw, W)) : nullptr;
    const Expr* v = ctx.binary(ir::Op::Add, fold(ir::Join::Sum, {dc, du, dv}, body, where), load(b, {cout}));
    if (p.residual) v = ctx.binary(ir::Op::Add, v, load(r, {at(dn), cout, at(dp), at(dq)}));
    v = ctx.binary(ir::Op::Max, v, ctx.number(0, type));
    map({dn, dg, dm, dp, dq}, y, {at(dn), cout, at(dp), at(dq)}, v, "conv");
  }

  // y[n, m, o] = b[m] + sum x[n, c, (o + pad - k) / s] * w[c, m, k] where it divides: a transposed convolution.
  void conv_transpose(int64_t c, int64_t m, int64_t k, int64_t s, int64_t pad, const Expr* H, const Expr* W) {
    auto out = [&](const Expr* in) { return ctx.add(ctx.mul(ctx.sub(in, n(1)), n(s)), n(k - 2 * pad)); };
    const Expr *P = out(H), *Q = out(W);
    uint32_t x = array("x", DType::F32, {n(1), n(c), H, W}), w = array("w", DType::F32, {n(c), n(m), n(k), n(k)}),
             b = array("b", DType::F32, {n(m)});
    uint32_t y = output("y", DType::F32, {n(1), n(m), P, Q});
    f.arrays[x].layout = f.arrays[y].layout = nest::permuted({0, 2, 3, 1});
    f.arrays[w].layout.pieces = {{2, 1, 0}, {3, 1, 0}, {1, 16, 0}, {0, 1, 0}, {1, 1, 16}};
    auto dn = dim("n", n(1)), dc = dim("c", n(c)), dm = dim("m", n(m)), dp = dim("p", P), dq = dim("q", Q),
         du = dim("u", n(k)), dv = dim("v", n(k));
    auto back = [&](const ir::Dim* o, const ir::Dim* t) { return ctx.sub(ctx.add(at(o), n(pad)), at(t)); };
    auto divides = [&](const Expr* e) { return ctx.binary(ir::Op::Eq, ctx.floormod(e, n(s)), n(0)); };
    const Expr *bh = back(dp, du), *bw = back(dq, dv);
    const Expr *ih = ctx.floordiv(bh, n(s)), *iw = ctx.floordiv(bw, n(s));
    const Expr* where = ctx.binary(ir::Op::And, ctx.binary(ir::Op::And, divides(bh), divides(bw)),
                                   ctx.binary(ir::Op::And, within(ih, H), within(iw, W)));
    const Expr* body =
        ctx.binary(ir::Op::Mul, load(x, {at(dn), at(dc), ih, iw}), load(w, {at(dc), at(dm), at(du), at(dv)}));
    const Expr* v = ctx.binary(ir::Op::Add, fold(ir::Join::Sum, {dc, du, dv}, body, where), load(b, {at(dm)}));
    map({dn, dm, dp, dq}, y, {at(dn), at(dm), at(dp), at(dq)}, v, "conv_transpose");
  }

  // Both products of attention, heads interleaved: s[h, i, j] = 0.35 * sum q[i, h, d] * k[j, h, d].
  void scores(int64_t heads, const Expr* L, int64_t depth) {
    auto H = n(heads), D = n(depth);
    uint32_t q = array("q", DType::F32, {L, H, D}), k = array("k", DType::F32, {L, H, D}),
             s = output("s", DType::F32, {H, L, L});
    auto h = dim("h", H), i = dim("i", L), j = dim("j", L), d = dim("d", D);
    const Expr* sum = fold(ir::Join::Sum, {d},
                           ctx.binary(ir::Op::Mul, load(q, {at(i), at(h), at(d)}), load(k, {at(j), at(h), at(d)})));
    map({h, i, j}, s, {at(h), at(i), at(j)}, ctx.binary(ir::Op::Mul, sum, ctx.number(0.35, DType::F32)), "scores");
  }
  // o[i, h, d] = sum p[h, i, j] * v[j, h, d].
  void mix(int64_t heads, const Expr* L, int64_t depth) {
    auto H = n(heads), D = n(depth);
    uint32_t p = array("p", DType::F32, {H, L, L}), v = array("v", DType::F32, {L, H, D}),
             o = output("o", DType::F32, {L, H, D});
    auto h = dim("h", H), i = dim("i", L), j = dim("j", L), d = dim("d", D);
    const Expr* sum = fold(ir::Join::Sum, {j},
                           ctx.binary(ir::Op::Mul, load(p, {at(h), at(i), at(j)}), load(v, {at(j), at(h), at(d)})));
    map({i, h, d}, o, {at(i), at(h), at(d)}, sum, "mix");
  }

  // o[i, h, d] = sum softmax(s)[h, i, j] * v[j, g, d] with s = 0.35 * q[i, h] * k[j, g] + mask[i, j], as the operators' texts have
  // it: one maximum, one exponential, one sum, one quotient. Heads share keys and values in groups g.
  void attention(int64_t heads, int64_t groups, const Expr* L, const Expr* U, int64_t depth) {
    auto H = n(heads), G = n(groups), D = n(depth);
    const auto temp = [&](std::string name, std::vector<const Expr*> shape) {
      return array(std::move(name), DType::F32, std::move(shape), nest::Array::Kind::Temp);
    };
    uint32_t q = array("q", DType::F32, {L, H, D}), k = array("k", DType::F32, {U, G, D}), v = array("v", DType::F32, {U, G, D}),
             mask = array("mask", DType::F32, {L, U});
    uint32_t s = temp("s", {H, L, U}), top = temp("top", {H, L}), part = temp("part", {H, L, U}), all = temp("all", {H, L}),
             p = temp("p", {H, L, U}), o = output("o", DType::F32, {L, H, D});
    const auto mul = [&](const Expr* a, const Expr* b) { return ctx.binary(ir::Op::Mul, a, b); };
    const auto stage = [&](uint32_t y, bool keys, const std::function<const Expr*(const Expr*, const Expr*, const Expr*)>& value) {
      auto h = dim("h", H), i = dim("i", L), j = dim("j", U);
      std::vector<const Expr*> index{at(h), at(i)};
      Dims dims{h, i};
      if (keys) index.push_back(at(j)), dims.push_back(j);
      map(dims, y, index, value(at(h), at(i), at(j)), "attention");
    };
    const auto group = [&](const Expr* h) { return ctx.floordiv(h, n(heads / groups)); };
    stage(s, true, [&](auto h, auto i, auto j) {
      auto d = dim("d", D);
      const Expr* sum = fold(ir::Join::Sum, {d}, mul(load(q, {i, h, at(d)}), load(k, {j, group(h), at(d)})));
      return ctx.binary(ir::Op::Add, mul(sum, ctx.number(0.35, DType::F32)), load(mask, {i, j}));
    });
    stage(top, false, [&](auto h, auto i, auto j) { return fold(ir::Join::Max, {j->dim}, load(s, {h, i, j})); });
    stage(part, true, [&](auto h, auto i, auto j) {
      return ctx.unary(ir::Op::Exp, ctx.binary(ir::Op::Sub, load(s, {h, i, j}), load(top, {h, i})));
    });
    stage(all, false, [&](auto h, auto i, auto j) { return fold(ir::Join::Sum, {j->dim}, load(part, {h, i, j})); });
    stage(p, true, [&](auto h, auto i, auto j) { return ctx.binary(ir::Op::Div, load(part, {h, i, j}), load(all, {h, i})); });
    auto h = dim("h", H), i = dim("i", L), j = dim("j", U), d = dim("d", D);
    map({i, h, d}, o, {at(i), at(h), at(d)}, fold(ir::Join::Sum, {j}, mul(load(p, {at(h), at(i), at(j)}), load(v, {at(j), group(at(h)), at(d)}))), "mix");
  }

  ir::Context& ctx;
  nest::Function f;
};

}  // namespace mlc::test
