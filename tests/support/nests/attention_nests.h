// Attention as the passes leave it, for tests of groups on devices.
#pragma once

#include <limits>

#include "tests/support/nests/nests.h"

namespace mlc::test {

inline void join_all(nest::Function& f) {
  for (size_t k = 1; k < f.body.size(); ++k) f.body[k].joins = true;
}

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// Attention as the passes leave it: causal or under a mask, a quotient behind the second product.
//   s[h, i, j] = seen ? q*k + bias : -inf; y = sum(part * v) / all
struct AttentionForm {
  bool causal = false;      // queries are the last of the keys
  bool window = false;      // and look at the last 20 of them alone
  bool masked = false;      // `mask` says what is seen
  bool safe = false;        // rows without keys are zero, not NaN
  bool checked = false;     // a bias of so many keys as an extent says
  bool shares = false;      // another statement reads the weights
  double softcap = 0;       // scores are softcap*tanh(score/softcap); 0: as they are
  bool turned = false;      // keys lie along their number
  int64_t heads = 2, depth = 8, values = 8;
  int64_t sharing = 1;      // heads that have their keys and values together
  DType type = DType::F32, value_type = DType::F32;  // of queries and keys; of values
  bool rounded = false;     // weights are rounded to the type of values, of f32 all factors to tf32
};

using Indices = std::vector<const ir::Expr*>;

inline void attention(NestMaker& m, const AttentionForm& form, const ir::Expr* L, const ir::Expr* U) {
  ir::Context& ctx = m.ctx;
  const auto f32 = [&](double v) { return ctx.number(v, DType::F32); };
  const auto temp = [&](const char* name, std::vector<const ir::Expr*> shape) { return m.array(name, DType::F32, std::move(shape), nest::Array::Kind::Temp); };
  auto H = m.n(form.heads), G = m.n(form.heads / form.sharing), D = m.n(form.depth), F = m.n(form.values);
  const uint32_t q = m.array("q", form.type, {L, H, D}), v = m.array("v", form.value_type, {U, G, F});
  const uint32_t k = m.array("k", form.type, form.turned ? Indices{G, D, U} : Indices{U, G, D});
  const auto number = [&](const ir::Expr* e) { return e->type.dtype != DType::F32 ? ctx.cast(DType::F32, e) : form.rounded ? ctx.unary(ir::Op::Tf32, e) : e; };
  const auto weight = [&](const ir::Expr* e) {
    if (!form.rounded) return e;
    return form.value_type == DType::F32 ? ctx.unary(ir::Op::Tf32, e) : ctx.cast(DType::F32, ctx.cast(form.value_type, e));
  };
  const auto shared = [&](const ir::Expr* h) { return form.sharing == 1 ? h : ctx.floordiv(h, m.n(form.sharing)); };
  const uint32_t mask = m.array("mask", DType::Bool, {L, U});
  const uint32_t s = temp("s", {H, L, U}), top = temp("top", {H, L}), part = form.shares ? m.output("part", DType::F32, {H, L, U}) : temp("part", {H, L, U});
  const uint32_t all = temp("all", {H, L}), y = m.output("y", DType::F32, {L, H, F});
  const auto row = [&] { return Dims{m.dim("h", H), m.dim("i", L), m.dim("j", U)}; };
  auto d = row();
  auto e = m.dim("e", D);
  const Indices at_key = form.turned ? Indices{shared(m.at(d[0])), m.at(e), m.at(d[2])} : Indices{m.at(d[2]), shared(m.at(d[0])), m.at(e)};
  const ir::Expr* sum = m.fold(ir::Join::Sum, {e}, ctx.binary(ir::Op::Mul, number(m.load(q, {m.at(d[1]), m.at(d[0]), m.at(e)})), number(m.load(k, at_key))));
  const ir::Expr* score = ctx.binary(ir::Op::Mul, sum, f32(0.35));
  if (form.softcap) score = ctx.binary(ir::Op::Mul, f32(form.softcap), ctx.unary(ir::Op::Tanh, ctx.binary(ir::Op::Div, score, f32(form.softcap))));
  if (form.checked) {
    const uint32_t bias = m.array("bias", DType::F32, {ctx.sym(ctx.declare_sym("biased", 0, 4096))});
    score = ctx.binary(ir::Op::Add, score, ctx.load(bias, {DType::F32, 1}, {m.at(d[2])}, ir::Access::Checked));
  }
  const Expr *place = ctx.add(m.at(d[1]), ctx.sub(U, L)), *seen = nullptr;
  if (form.causal) seen = ctx.binary(ir::Op::Le, m.at(d[2]), place);
  if (form.window) seen = ctx.logical_and(seen, ctx.binary(ir::Op::Lt, place, ctx.add(m.at(d[2]), m.n(20))));
  if (form.masked) seen = ctx.logical_and(seen, m.load(mask, {m.at(d[1]), m.at(d[2])}));
  m.map(d, s, {m.at(d[0]), m.at(d[1]), m.at(d[2])}, seen ? ctx.select(seen, score, f32(kLowest)) : score, "attention");
  d = row();
  m.map({d[0], d[1]}, top, {m.at(d[0]), m.at(d[1])}, m.fold(ir::Join::Max, {d[2]}, m.load(s, {m.at(d[0]), m.at(d[1]), m.at(d[2])})));
  d = row();
  const ir::Expr* largest = m.load(top, {m.at(d[0]), m.at(d[1])});
  const ir::Expr* power = ctx.unary(ir::Op::Exp, ctx.binary(ir::Op::Sub, m.load(s, {m.at(d[0]), m.at(d[1]), m.at(d[2])}), largest));
  m.map(d, part, {m.at(d[0]), m.at(d[1]), m.at(d[2])}, form.safe ? ctx.select(ctx.binary(ir::Op::Eq, largest, f32(kLowest)), f32(0), power) : power);
  d = row();
  m.map({d[0], d[1]}, all, {m.at(d[0]), m.at(d[1])}, m.fold(ir::Join::Sum, {d[2]}, m.load(part, {m.at(d[0]), m.at(d[1]), m.at(d[2])})));
  d = row();
  auto f = m.dim("f", F);
  sum = m.fold(ir::Join::Sum, {d[2]}, ctx.binary(ir::Op::Mul, weight(m.load(part, {m.at(d[0]), m.at(d[1]), m.at(d[2])})), number(m.load(v, {m.at(d[2]), shared(m.at(d[0])), m.at(f)}))));
  const ir::Expr* total = m.load(all, {m.at(d[0]), m.at(d[1])});
  const ir::Expr* mean = ctx.binary(ir::Op::Div, sum, total);
  if (form.safe) mean = ctx.select(ctx.binary(ir::Op::Eq, total, f32(0)), f32(0), mean);
  m.map({d[1], d[0], f}, y, {m.at(d[1]), m.at(d[0]), m.at(f)}, mean, "mix");
  join_all(m.f);
}

}  // namespace mlc::test
