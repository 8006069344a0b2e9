#include "packager/lower/device/product/codes.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kHalf = 128;  // between a code of u8 and the one of i8 that has all bits but the first in common

bool is_code_side(const nest::Operand& o) {
  if (!o.load || !o.is_code() || o.scale || o.factor->type.dtype != DType::I32) return false;
  return !o.zero || (o.code() == DType::U8 && o.zero->is_int(kHalf));
}

}  // namespace

bool is_product_of_codes(const DeviceProduct& p) {
  const nest::Operand &a = p.rows.factor, &b = p.columns.factor;
  if (p.sum() != DType::I32 || !is_code_side(a) || !is_code_side(b)) return false;
  // Where the depth has ended one of two factors has to be zero.
  return !(a.inside && b.inside) && !((a.inside || b.inside) && p.fold->fold->where);
}

std::string dot_instruction(const Job& job, const DeviceProduct& p) {
  return job.target.has_dot && is_product_of_codes(p) ? schedule::kDotInstruction : std::string();
}

CodeSide take_codes(ir::Context& ctx, DeviceProduct::Side& side) {
  nest::Operand& o = side.factor;
  CodeSide codes{o.zero ? DType::I8 : o.code(), o.zero != nullptr};
  const Expr* nothing = o.inside ? o.outside : codes.flipped ? ctx.integer(0, DType::I32) : nullptr;
  if (nothing) side.outside = ctx.cast(o.code(), codes.flipped ? ctx.binary(Op::Add, nothing, ctx.integer(kHalf, DType::I32)) : nothing);
  if (o.inside)
    for (const Expr* term : conjuncts(ctx, o.inside)) side.terms.push_back(term);
  o.factor = o.load;
  o.zero = o.inside = o.outside = nullptr;
  return codes;
}

DepthRuns depth_runs(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t most, int64_t least) {
  const ir::Dim* last = p.depth.back();
  const Expr* address = side.factor.load->args[0];
  if (facts.needs_guard(address)) return {};
  if (std::any_of(side.terms.begin(), side.terms.end(), [&](const Expr* term) { return facts.depends(term, last); })) return {};
  for (const int64_t length : {most, least}) {
    if (ir::divisor_of(last->extent) % length != 0) continue;
    // k = length*q + j: panels have floor(k/4) in their addresses, which then is part of q.
    const Expr* leaves[] = {ctx.dim(ctx.declare_dim("q", ctx.floordiv(last->extent, ctx.integer(length)))), ctx.dim(ctx.declare_dim("j", ctx.integer(length)))};
    const Expr* at = ctx.add(ctx.mul(leaves[0], ctx.integer(length)), leaves[1]);
    const auto linear = ir::linear_in(ctx, ctx.substitute(address, {{ctx.dim(last), at}}), leaves);
    if (!linear || !linear->coefficients[1]->is_int(1)) continue;
    if (ir::divisor_of(linear->rest) % length != 0 || ir::divisor_of(linear->coefficients[0]) % length != 0) continue;
    return {length, ctx.floordiv(linear->rest, ctx.integer(length)), ctx.floordiv(linear->coefficients[0], ctx.integer(length))};
  }
  return {};
}

}  // namespace mlc::lower
