#include "packager/loop/build.h"

#include <cassert>

#include "packager/loop/ops.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;
using ir::Type;

Stmt& Builder::append(StmtKind kind) {
  block_->push_back(std::make_unique<Stmt>());
  block_->back()->kind = kind;
  return *block_->back();
}

const Expr* Builder::let(const Expr* value) {
  if (value->op == Op::Const || value->op == Op::Var || value->op == Op::Sym) return value;
  Stmt& s = append(StmtKind::Let);
  s.var = ctx_.fresh_var(value->type);
  s.value = value;
  return s.var;
}

const Expr* Builder::local(const Expr* value) {
  Stmt& s = append(StmtKind::Local);
  s.var = ctx_.fresh_var(value->type);
  s.value = value;
  return s.var;
}

void Builder::assign(const Expr* var, const Expr* value) {
  assert(var->op == Op::Var && var->type == value->type);
  Stmt& s = append(StmtKind::Assign);
  s.var = var;
  s.value = value;
}

void Builder::store(uint32_t array, const Expr* index, const Expr* value, const Expr* mask) {
  Stmt& s = append(StmtKind::Store);
  s.array = array;
  s.index = {index};
  s.value = value;
  s.cond = mask;
}

void Builder::prefetch(uint32_t array, const Expr* index) {
  Stmt& s = append(StmtKind::Prefetch);
  s.array = array;
  s.index = {index};
}

void Builder::copy(uint32_t array, const Expr* index, const Expr* from, int64_t bytes, const Expr* cond) {
  Stmt& s = append(StmtKind::Copy);
  s.array = array;
  s.index = {index};
  s.value = from;
  s.step = bytes;
  s.cond = cond;
}

void Builder::close_copies() { append(StmtKind::CloseCopies); }
void Builder::wait_copies(int64_t groups) { append(StmtKind::WaitCopies).step = groups; }

const Expr* Builder::peer(const Expr* value, int64_t block) {
  Stmt& s = append(StmtKind::Peer);
  s.var = ctx_.fresh_var(value->type);
  s.value = value;
  s.step = block;
  return s.var;
}

const Expr* Builder::load_matrices(const Expr* row, bool transposed) {
  Stmt& s = append(StmtKind::LoadMatrices);
  s.transposed = transposed;
  s.var = ctx_.fresh_var(row->type);
  s.value = row;
  return s.var;
}

const Expr* Builder::fold_lanes(Op combine, const Expr* value, int64_t lanes) {
  Stmt& s = append(StmtKind::FoldLanes);
  s.var = ctx_.fresh_var(value->type);
  s.value = value;
  s.combine = combine;
  s.step = lanes;
  return s.var;
}

const Expr* Builder::mma(DType factors, const Expr* sums, const Expr* a, const Expr* b, DType b_factors) {
  Stmt& s = append(StmtKind::Mma);
  s.var = ctx_.fresh_var(sums->type);
  s.value = sums;
  s.index = {a, b};
  s.factors = factors;
  s.b_factors = b_factors;
  return s.var;
}

void Builder::group_mma(std::vector<const Expr*> sums, uint32_t array, const GroupFactor& a, const GroupFactor& b) {
  Stmt& s = append(StmtKind::GroupMma);
  s.sums = std::move(sums);
  s.array = array;
  s.index = {a.place, b.place};
  s.transposed = a.transposed, s.b_transposed = b.transposed;
  s.factors = a.type;
  s.b_factors = a.type == DType::I8 || a.type == DType::U8 ? b.type : DType::None;
}

void Builder::begin_matrices() { append(StmtKind::Matrix); }

void Builder::add_matrices(DType factors, uint32_t array, const Strided& a, const Strided& b) {
  Stmt& s = append(StmtKind::Matrix);
  s.matrix_op = MatrixOp::Add;
  s.factors = factors;
  s.array = array;
  s.index = {a.place, a.stride, b.place, b.stride};
}

void Builder::store_matrices(int64_t row, uint32_t array, const Strided& to) {
  Stmt& s = append(StmtKind::Matrix);
  s.matrix_op = MatrixOp::Store;
  s.step = row;
  s.array = array;
  s.index = {to.place, to.stride};
}

void Builder::begin_tiles(int64_t bytes) { append(StmtKind::Tiles).step = bytes; }

void Builder::tile_dot(unsigned tile, int64_t bytes, const Expr* a, const Expr* stride, const Expr* b) {
  Stmt& s = append(StmtKind::Tiles);
  s.tile_op = TileOp::Dot;
  s.tile = static_cast<uint8_t>(tile);
  s.step = bytes;
  s.index = {a, stride, b};
}

void Builder::store_tile(unsigned tile, uint32_t array, const Expr* index) {
  Stmt& s = append(StmtKind::Tiles);
  s.tile_op = TileOp::Store;
  s.tile = static_cast<uint8_t>(tile);
  s.array = array;
  s.index = {index};
}

void Builder::fault(const Expr* cond, int32_t code) {
  if (cond->op == Op::Const && cond->i == 0) return;
  Stmt& s = append(StmtKind::Fault);
  s.cond = cond;
  s.fault = code;
}

void Builder::within(Block& block, const std::function<void()>& body) {
  Block* outer = block_;
  block_ = &block;
  body();
  block_ = outer;
}

void Builder::with_for(const Expr* begin, const Expr* end, int64_t step, const std::function<void(const Expr*)>& body) {
  const Expr* var = ctx_.fresh_var({DType::I64, 1});
  with_for_var(var, begin, end, step, [&] { body(var); });
}

void Builder::with_for_var(const Expr* var, const Expr* begin, const Expr* end, int64_t step,
                           const std::function<void()>& body) {
  Stmt& s = append(StmtKind::For);
  s.var = var;
  s.begin = begin;
  s.end = end;
  s.step = step;
  within(s.body, body);
}

void Builder::with_rolled_for(const Expr* begin, const Expr* end, int64_t step, const std::function<void(const Expr*)>& body) {
  const size_t at = block_->size();
  with_for(begin, end, step, body);
  (*block_)[at]->rolled = true;
}

void Builder::with_if(const Expr* cond, const std::function<void()>& then, const std::function<void()>& otherwise) {
  if (cond->op == Op::Const) {
    if (cond->i) then();
    else if (otherwise) otherwise();
    return;
  }
  Stmt& s = append(StmtKind::If);
  s.cond = cond;
  within(s.body, then);
  if (otherwise) within(s.orelse, otherwise);
}

void Builder::with_while(const Expr* cond, const Expr* bound, const std::function<void()>& body) {
  Stmt& s = append(StmtKind::While);
  s.cond = cond;
  s.bound = bound;
  within(s.body, body);
}

namespace {
Expr node(Op op, DType dtype, unsigned lanes) {
  Expr e;
  e.op = op;
  e.type = {dtype, static_cast<uint16_t>(lanes)};
  return e;
}
}  // namespace

const Expr* splat(ir::Context& ctx, const Expr* a, unsigned lanes) {
  if (a->type.lanes == lanes) return a;
  assert(a->type.lanes == 1);
  return ctx.raw(node(Op::Splat, a->type.dtype, lanes), {a});
}

const Expr* splat_group(ir::Context& ctx, const Expr* group, unsigned lanes) {
  if (group->type.lanes == lanes) return group;
  assert(lanes % group->type.lanes == 0);
  return ctx.raw(node(Op::Splat, group->type.dtype, lanes), {group});
}

const Expr* vec_dot(ir::Context& ctx, const Expr* acc, const Expr* a, const Expr* b) {
  return ctx.raw(node(Op::Dot, acc->type.dtype, acc->type.lanes), {acc, a, b});
}

const Expr* codes_of(ir::Context& ctx, DType code, const Expr* words) {
  return ctx.convert(Op::Bitcast, {code, static_cast<uint16_t>(kCodesOfCell * words->type.lanes)}, words);
}

const Expr* words_of(ir::Context& ctx, DType word, const Expr* codes) {
  return ctx.convert(Op::Bitcast, {word, static_cast<uint16_t>(codes->type.lanes / kCodesOfCell)}, codes);
}

const Expr* vec_unary(ir::Context& ctx, Op op, const Expr* a) {
  if (a->type.lanes == 1) return ctx.unary(op, a);
  DType to = op == Op::IsNan || op == Op::IsInf || op == Op::Not ? DType::Bool : a->type.dtype;
  return ctx.raw(node(op, to, a->type.lanes), {a});
}

const Expr* vec_binary(ir::Context& ctx, Op op, const Expr* a, const Expr* b) {
  unsigned lanes = std::max(a->type.lanes, b->type.lanes);
  if (lanes == 1) return ctx.binary(op, a, b);
  DType to = is_comparison(op) ? DType::Bool : a->type.dtype;
  return ctx.raw(node(op, to, lanes), {splat(ctx, a, lanes), splat(ctx, b, lanes)});
}

const Expr* vec_select(ir::Context& ctx, const Expr* c, const Expr* a, const Expr* b) {
  unsigned lanes = std::max({c->type.lanes, a->type.lanes, b->type.lanes});
  if (lanes == 1) return ctx.select(c, a, b);
  return ctx.raw(node(Op::Select, a->type.dtype, lanes),
                 {splat(ctx, c, lanes), splat(ctx, a, lanes), splat(ctx, b, lanes)});
}

const Expr* vec_fma(ir::Context& ctx, const Expr* a, const Expr* b, const Expr* c) {
  unsigned lanes = std::max({a->type.lanes, b->type.lanes, c->type.lanes});
  return ctx.raw(node(Op::Fma, c->type.dtype, lanes),
                 {splat(ctx, a, lanes), splat(ctx, b, lanes), splat(ctx, c, lanes)});
}

const Expr* vec_convert(ir::Context& ctx, Op op, DType to, const Expr* a) {
  return ctx.convert(op, {to, a->type.lanes}, a);
}

const Expr* ramp(ir::Context& ctx, const Expr* base, unsigned lanes, int64_t stride) {
  Expr e = node(Op::Ramp, base->type.dtype, lanes);
  e.i = stride;
  return ctx.raw(e, {base});
}

const Expr* extract(ir::Context& ctx, const Expr* a, unsigned lane) {
  Expr e = node(Op::Extract, a->type.dtype, 1);
  e.i = lane;
  return ctx.raw(e, {a});
}

const Expr* widen(ir::Context& ctx, std::vector<const Expr*> parts) {
  unsigned lanes = parts[0]->type.lanes * static_cast<unsigned>(parts.size());
  Expr e = node(Op::Widen, parts[0]->type.dtype, lanes);
  return ctx.raw(e, std::move(parts));
}

const Expr* vec_load(ir::Context& ctx, uint32_t array, Type type, const Expr* index, const Expr* mask) {
  Expr e = node(Op::Load, type.dtype, type.lanes);
  e.array = array;
  if (mask && !(mask->op == Op::Const && mask->i)) return ctx.raw(e, {index, splat(ctx, mask, type.lanes)});
  return ctx.raw(e, {index});
}

const Expr* lanes_fold(ir::Context& ctx, Op op, const Expr* a) {
  if (a->type.lanes == 1) return a;
  return ctx.raw(node(op, a->type.dtype, 1), {a});
}

}  // namespace mlc::loop
