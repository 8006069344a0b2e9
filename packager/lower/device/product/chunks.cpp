#include "packager/lower/device/product/chunks.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

bool is_16_bits(DType t) { return t == DType::F16 || t == DType::BF16; }

}  // namespace

DType element_type(const nest::Operand& o) {
  const DType t = o.is_plain() && o.factor->op == Op::Cast && o.factor->args[0] == o.load ? o.load->type.dtype : DType::F32;
  return is_16_bits(t) ? t : DType::F32;
}

DType factors_of(const DeviceProduct& p) {
  if (p.sum() == DType::I32) return DType::I8;
  const DType t = element_type(p.rows.factor);
  return t == element_type(p.columns.factor) ? t : DType::F32;
}

bool is_short(const nest::Operand& o) {
  if (o.factor->op == Op::Tf32) return true;
  const DType t = o.load->type.dtype;
  return o.is_plain() && o.factor->op == Op::Cast && o.factor->args[0] == o.load && (is_16_bits(t) || bits_of(t) <= 8);
}

int64_t cell_values(DType factors) { return 32 / bits_of(factors); }

bool lies_along_depth(ir::Context& ctx, const DeviceProduct& p, const DeviceProduct::Side& side) {
  const Expr* leaf[] = {ctx.dim(p.depth.back())};
  const auto linear = ir::linear_in(ctx, side.factor.load->args[0], leaf);
  return linear && linear->coefficients[0]->is_int(1);
}

bool is_rounded_load(const nest::Operand& o) { return o.factor->op == Op::Tf32 && o.factor->args[0] == o.load; }

const Expr* chunks_of_depth(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t values) {
  const nest::Operand& o = side.factor;
  if (p.depth.size() != 1 || (o.factor != o.load && o.factor->op != Op::Tf32) || !o.is_plain() || !lies_along_depth(ctx, p, side) || facts.needs_guard(o.load->args[0])) return nullptr;
  for (const Expr* term : side.terms)
    if (facts.depends(term, p.depth[0])) return nullptr;
  const Expr* leaf[] = {ctx.dim(p.depth[0])};
  const Expr* rest = ir::linear_in(ctx, o.load->args[0], leaf)->rest;
  return ir::divisor_of(rest) % values == 0 && ir::divisor_of(p.depth_points) % values == 0 ? ctx.floordiv(rest, ctx.integer(values)) : nullptr;
}

DepthRuns runs_copied(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t values) {
  const nest::Operand& o = side.factor;
  const int64_t cell = values / kCellsOfChunk;
  if (side.outside || !o.is_plain() || (o.factor != o.load && !is_rounded_load(o))) return {};
  if (p.depth.size() == 1 && (cell != 2 || chunks_of_depth(ctx, facts, p, side, values))) return {};
  const DepthRuns runs = depth_runs(ctx, facts, p, side, values, cell == 2 ? cell : values);
  return runs.length > 1 ? runs : DepthRuns{};
}

int64_t bytes_copied(const DeviceProduct::Side& side, const CodeSide& codes, const DepthRuns& runs) {
  return (runs.length == kChunkBytes || runs.length == kCellBytes) && !codes.flipped && !side.outside ? runs.length : 0;
}
int64_t bytes_copied(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, bool is_chunk) {
  const nest::Operand& o = side.factor;
  if (o.factor != o.load && !is_rounded_load(o)) return 0;
  if (is_chunk) return kChunkBytes;
  // A cell where it is all of a load, whose place moves evenly along the depth, and whether it counts is the row's alone.
  const Expr* leaf[] = {ctx.dim(p.depth.back())};
  const bool is_even = o.load->type.dtype == DType::F32 && p.depth.size() == 1 && o.is_plain() && !facts.needs_guard(o.load->args[0]) && ir::linear_in(ctx, o.load->args[0], leaf);
  return is_even && std::none_of(side.terms.begin(), side.terms.end(), [&](const Expr* term) { return facts.depends(term, p.depth[0]); }) ? kCellBytes : 0;
}

bool lies_along_points(ir::Context& ctx, Facts& facts, const DeviceProduct::Side& side, int64_t length) {
  const nest::Operand& o = side.factor;
  if (side.dims.empty() || side.outside || o.factor != o.load || !o.is_plain() || facts.needs_guard(o.load->args[0])) return false;
  const ir::Dim* last = side.dims.back();
  if (ir::divisor_of(last->extent) % length != 0) return false;
  if (std::any_of(side.terms.begin(), side.terms.end(), [&](const Expr* term) { return facts.depends(term, last); })) return false;
  // Of two runs side by side, which are a panel's row.
  const auto leaf = [&](const char* name, const Expr* extent) { return ctx.dim(ctx.declare_dim(name, extent)); };
  const Expr *q = leaf("q", ctx.ceildiv(last->extent, ctx.integer(2 * length))), *run = leaf("h", ctx.integer(2)), *step = leaf("r", ctx.integer(length));
  const Expr* at = ctx.add(ctx.add(ctx.mul(q, ctx.integer(2 * length)), ctx.mul(run, ctx.integer(length))), step);
  const Expr* leaves[] = {step};
  const auto linear = ir::linear_in(ctx, ctx.substitute(o.load->args[0], {{ctx.dim(last), at}}), leaves);
  return linear && linear->coefficients[0]->is_int(1) && ir::divisor_of(linear->rest) % length == 0;
}

SidesCopied sides_copied(const Job& job, DeviceProduct p, bool flat) {
  const DType factors = factors_of(p);
  if (!flat) p.depth = {p.depth.back()}, p.depth_points = p.depth[0]->extent;
  Facts facts;
  const int64_t values = kCellsOfChunk * cell_values(factors);
  const auto bytes = [&](DeviceProduct::Side& side) {
    if (factors == DType::I8) {
      const CodeSide codes = take_codes(job.ctx, side);
      return bytes_copied(side, codes, depth_runs(job.ctx, facts, p, side, values, cell_values(factors)));
    }
    if (factors != DType::F32) side.factor.factor = side.factor.load;
    if (cell_values(factors) == 2 && lies_along_points(job.ctx, facts, side, values)) return kChunkBytes;
    const DepthRuns runs = runs_copied(job.ctx, facts, p, side, values);
    return runs.length > 1 ? runs.length * kCellBytes / cell_values(factors) : bytes_copied(job.ctx, facts, p, side, chunks_of_depth(job.ctx, facts, p, side, values) != nullptr);
  };
  return job.target.copies_aside ? SidesCopied{bytes(p.rows), bytes(p.columns)} : SidesCopied{};
}

}  // namespace mlc::lower
