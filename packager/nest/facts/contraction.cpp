#include "packager/nest/facts/contraction.h"

#include <algorithm>
#include <unordered_set>

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {

// The nodes of an expression in which one of the dims occurs.
std::unordered_set<const Expr*> mentioning(const Expr* e, const std::vector<const ir::Dim*>& dims) {
  std::unordered_set<const Expr*> found;
  ir::walk(e, [&](const Expr* x) {
    const bool is_one = x->op == Op::Dim && std::find(dims.begin(), dims.end(), x->dim) != dims.end();
    if (is_one || std::any_of(x->args.begin(), x->args.end(), [&](const Expr* a) { return found.contains(a); })) found.insert(x);
  });
  return found;
}

bool mentions(const Expr* e, const std::vector<const ir::Dim*>& dims) { return mentioning(e, dims).contains(e); }

// A load, what it is converted to without loss in the type of the sum, or rounded to for tensor cores.
const Expr* element(const Expr* e) {
  if (e->op == Op::Load) return e;
  if (e->op == Op::Tf32) return e->args[0]->op == Op::Load ? e->args[0] : nullptr;
  if (e->op != Op::Cast || e->args[0]->op != Op::Load) return nullptr;
  const DType from = e->args[0]->type.dtype, to = e->type.dtype;
  const bool is_short = from == DType::I8 || from == DType::U8 || from == DType::I16 || from == DType::U16;
  if (is_short) return to == DType::I32 || to == DType::F32 ? e->args[0] : nullptr;
  return to == DType::F32 && (from == DType::F16 || from == DType::BF16) ? e->args[0] : nullptr;
}

// The factors of a product: those that the dims change, of which more than one are not looked for, and the others. A factor stands in
// a product as often as there are ways to it, which may be 2^n in n nodes.
void split_factors(const Expr* e, const std::vector<const ir::Dim*>& folded, std::vector<const Expr*>& changing, std::vector<const Expr*>& fixed) {
  const std::unordered_set<const Expr*> changed = mentioning(e, folded);
  std::vector<const Expr*> open{e};
  while (!open.empty() && changing.size() < 2) {
    const Expr* factor = open.back();
    open.pop_back();
    if (!changed.contains(factor)) fixed.push_back(factor);
    else if (factor->op != Op::Mul) changing.push_back(factor);
    else open.insert(open.end(), factor->args.rbegin(), factor->args.rend());
  }
}

const Expr* product(ir::Context& ctx, const std::vector<const Expr*>& factors) {
  const Expr* p = factors[0];
  for (size_t k = 1; k < factors.size(); ++k) p = ctx.binary(Op::Mul, p, factors[k]);
  return p;
}

// d itself, or a part of so many elements: head*64 + d.
bool is_along(ir::Context& ctx, const Expr* index, const ir::Dim* d) {
  if (index == ctx.dim(d)) return true;
  const Expr* leaf[] = {ctx.dim(d)};
  const auto linear = ir::linear_in(ctx, index, leaf);
  return linear && linear->coefficients[0]->is_int(1) && d->extent->is_const() && d->extent->i > 1 && ir::divisor_of(linear->rest) % d->extent->i == 0;
}

// One factor, its scale and zero point taken off.
std::optional<Operand> operand_of(ir::Context& ctx, const Expr* factor, const std::vector<const ir::Dim*>& folded) {
  Operand o;
  o.factor = factor;
  std::vector<const Expr*> changing, fixed;  // what the folded dims change, and what they do not
  split_factors(factor, folded, changing, fixed);
  if (changing.size() > 1 || (changing.empty() && fixed.size() != 1)) return std::nullopt;
  const Expr* code = changing.empty() ? factor : changing[0];
  if (!changing.empty() && !fixed.empty()) o.scale = product(ctx, fixed);
  if (code->op == Op::Select && code->type.dtype == DType::I32 && !mentions(code->args[2], folded)) {
    o.inside = code->args[0];
    o.outside = code->args[2];
    code = code->args[1];
  }
  if (code->op == Op::Sub && !mentions(code->args[1], folded)) {
    o.zero = code->args[1];
    code = code->args[0];
  }
  o.load = element(code);
  if (!o.load || (o.zero && !o.is_code())) return std::nullopt;
  return o;
}

// Whether `d` is an index of the load as it stands, or behind a number of others (of a slice), and part of no other.
bool is_plain_index(ir::Context& ctx, const Expr* load, const ir::Dim* d) {
  const Expr* leaf[] = {ctx.dim(d)};
  size_t plain = 0, uses = 0;
  for (const Expr* e : load->args) {
    if (!ir::depends_on(e, leaf[0])) continue;
    ++uses;
    const auto linear = ir::linear_in(ctx, e, leaf);
    plain += linear && linear->coefficients[0]->is_int(1) && linear->rest->is_const();
  }
  return plain == 1 && uses == 1;
}

// A number in memory as it is.
bool is_number(const std::optional<Operand>& o) { return o && o->is_plain() && is_float(o->code()); }

}  // namespace

std::optional<Contraction> contraction_of(ir::Context& ctx, std::span<const ir::Dim* const> scope, const Expr* fold, Factors factors) {
  if (fold->op != Op::Fold || fold->fold->combiner->join != ir::Join::Sum || fold->args[0]->op != Op::Mul) return std::nullopt;
  const std::vector<const ir::Dim*>& folded = fold->fold->dims;
  const Expr *first = fold->args[0]->args[0], *second = fold->args[0]->args[1];
  auto a = operand_of(ctx, first, folded), b = operand_of(ctx, second, folded);
  if (factors == Factors::Computed) {
    if (is_number(a) == is_number(b)) return std::nullopt;
    if (is_number(b)) std::swap(a, b), std::swap(first, second);
    b.emplace().factor = second;
  }
  if (!a || !b) return std::nullopt;
  Contraction c;
  c.fold = fold;
  c.a = *a;
  c.b = *b;
  const auto knows = [&](const Operand& o, const ir::Dim* d) { return ir::depends_on(o.load ? o.load : o.factor, ctx.dim(d)); };
  for (const ir::Dim* d : scope) (!knows(c.b, d) ? c.m : knows(c.a, d) ? c.batch : c.n).push_back(d);
  const auto restricted = [&](const ir::Dim* d) {
    for (const Expr* where : {fold->fold->where, c.a.inside, c.b.inside})
      if (where && ir::depends_on(where, ctx.dim(d))) return true;
    return false;
  };
  const auto is_plain = [&](const Operand& o, const ir::Dim* d) { return !o.load || is_plain_index(ctx, o.load, d); };
  for (const ir::Dim* d : folded) (is_plain(c.a, d) && is_plain(c.b, d) && !restricted(d) ? c.k : c.taps).push_back(d);
  return c;
}

std::optional<Contraction> only_product(ir::Context& ctx, std::span<const ir::Dim* const> scope, const Expr* value, Factors factors) {
  std::vector<const Expr*> folds;
  ir::walk(value, [&](const Expr* e) {
    if (e->op == Op::Fold) folds.push_back(e);
  });
  std::optional<Contraction> only;
  for (const Expr* fold : folds)
    if (auto c = contraction_of(ctx, scope, fold, factors)) {
      if (only) return std::nullopt;
      only = std::move(c);
    }
  for (const Expr* fold : folds) {
    if (!only || fold == only->fold) continue;
    const bool of_a = is_sum_of_operand(fold, *only, only->a);
    if (!of_a && !is_sum_of_operand(fold, *only, only->b)) return std::nullopt;
    (of_a ? only->sum_of_a : only->sum_of_b) = fold;
  }
  return only;
}

Contraction Contraction::swapped() const {
  Contraction other = *this;
  std::swap(other.a, other.b);
  std::swap(other.sum_of_a, other.sum_of_b);
  // Dims that no operand knows stay with the rows.
  other.m = n;
  other.n.clear();
  for (const ir::Dim* d : m) {
    bool known = false;
    ir::walk(a.load, [&](const Expr* e) { known |= e->op == Op::Dim && e->dim == d; });
    (known ? other.n : other.m).push_back(d);
  }
  return other;
}

bool is_product_of_pairs(const Contraction& c) {
  return c.acc() == DType::F32 && c.is_plain() && c.a.code() == DType::BF16 && c.b.code() == DType::BF16;
}

bool is_signed_code(const Operand& o) {
  return o.code() == DType::I8 ? !o.zero : o.code() == DType::U8 && o.zero && o.zero->is_int(128);
}

bool is_turned(ir::Context& ctx, const Contraction& c, std::span<const Expr* const> written) {
  const auto runs_along = [&](const Operand& o) {
    const auto& folded = c.fold->fold->dims;
    return !o.load->args.empty() && std::any_of(folded.begin(), folded.end(), [&](const ir::Dim* d) { return is_along(ctx, o.load->args.back(), d); });
  };
  const auto has_columns = [&](const Operand& o) { return !written.empty() && written.back()->op == Op::Dim && ir::depends_on(o.load, written.back()); };
  return runs_along(c.a) != runs_along(c.b) ? runs_along(c.b) : has_columns(c.a) && !has_columns(c.b);
}

bool is_worth_packing(const Contraction& c) {
  const auto points = [](const std::vector<const ir::Dim*>& dims) {
    double all = 1;
    for (const ir::Dim* d : dims) all *= d->extent->is_const() ? static_cast<double>(d->extent->i) : static_cast<double>(kRowsWorthPacking);
    return all;
  };
  return points(c.m) >= kRowsWorthPacking && points(c.n) >= kFewColumns;
}

bool is_sum_of_operand(const Expr* fold, const Contraction& c, const Operand& operand) {
  if (fold->op != Op::Fold || fold->fold->combiner != c.fold->fold->combiner || fold->fold->dims != c.fold->fold->dims) return false;
  return fold->fold->where == c.fold->fold->where && fold->args[0] == operand.factor && !operand.zero && !operand.scale;
}

unsigned lanes_along_k(const ir::Expr* k_extent, unsigned lanes) {
  constexpr unsigned kLeast = 4;
  if (!k_extent->is_const()) return 1;
  while (lanes >= kLeast && k_extent->i < lanes) lanes /= 2;
  if (lanes < kLeast) return 1;
  // Vectors of half as many lanes without a rest are as good.
  return k_extent->i % lanes != 0 && k_extent->i % (lanes / 2) == 0 && lanes / 2 >= kLeast ? lanes / 2 : lanes;
}

}  // namespace mlc::nest
