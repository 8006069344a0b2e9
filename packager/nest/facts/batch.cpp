// The proof. Every array either knows nothing of the batch, or has one axis of extent c * N, of which row r of the batch has the
// c elements from c * r on. In a statement, the dim of extent d * N is written as d * row + rest; then `row` stands in the axis of
// the batch of every array, as c * row + (something in 0 .. c - 1), and nowhere else. N stands nowhere at all.
#include "packager/nest/facts/batch.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "packager/nest/facts/uses.h"
#include "packager/nest/proc.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Op;

// Where an array has the rows.
struct RowsOfBatch {
  size_t axis = 0;
  const Expr* each = nullptr;  // elements of a row along the axis; null: the array knows nothing of the batch
};

class Proof {
 public:
  Proof(ir::Context& ctx, const Function& f, const ir::Sym* batch) : ctx_(ctx), f_(f), batch_(ctx.sym(batch)), one_(ctx.integer(1)) {}

  bool run() {
    for (const Array& a : f_.arrays)
      if (!add_array(a)) return false;
    return interface_is_rows() && std::all_of(f_.body.begin(), f_.body.end(), [&](const Statement& s) { return statement(s); });
  }

 private:
  bool knows(const Expr* e) const { return ir::depends_on(e, batch_); }

  // The c of an extent c * N.
  const Expr* rows_of(const Expr* extent) {
    const Expr* leaf[] = {batch_};
    const auto linear = ir::linear_in(ctx_, extent, leaf);
    return linear && linear->rest->is_int(0) && !knows(linear->coefficients[0]) ? linear->coefficients[0] : nullptr;
  }

  bool add_array(const Array& a) {
    RowsOfBatch& rows = rows_.emplace_back();
    for (size_t k = 0; k < a.shape.size(); ++k) {
      if (!knows(a.shape[k])) continue;
      if (rows.each) return false;
      rows = {k, rows_of(a.shape[k])};
      if (!rows.each) return false;
    }
    return true;
  }

  bool interface_is_rows() const {
    const auto is_first = [&](uint32_t array) { return rows_[array].each == one_ && rows_[array].axis == 0; };
    const auto fits = [&](uint32_t array) { return !rows_[array].each || is_first(array); };
    return std::all_of(f_.outputs.begin(), f_.outputs.end(), is_first) && std::all_of(f_.inputs.begin(), f_.inputs.end(), fits) &&
           std::any_of(f_.inputs.begin(), f_.inputs.end(), is_first) &&
           std::none_of(f_.definitions.begin(), f_.definitions.end(), [&](const auto& d) { return knows(d.value); }) &&
           std::none_of(f_.checks.begin(), f_.checks.end(), [&](const auto& c) { return knows(c.condition); }) &&
           std::none_of(f_.elements.begin(), f_.elements.end(), [&](const auto& e) { return rows_[e.input].each != nullptr; });
  }

  bool statement(const Statement& s) {
    if (s.control) return control(s);
    row_ = nullptr;
    split_.clear();
    for (const ir::Dim* d : s.nest ? s.nest->dims : s.proc->dims)
      if (!add_dim(d)) return false;
    return s.nest ? nest(*s.nest) : block(s.proc->body) && locals(*s.proc);
  }

  // One that has nothing to do with the batch.
  bool control(const Statement& s) const {
    const auto is_common = [&](uint32_t array) { return array == kNoArray || !rows_[array].each; };
    SymbolSet symbols;
    add_symbols(f_, s, symbols);
    return std::all_of(s.control->inputs.begin(), s.control->inputs.end(), is_common) &&
           std::all_of(s.control->outputs.begin(), s.control->outputs.end(), is_common) && !symbols.contains(batch_->sym);
  }

  bool add_dim(const ir::Dim* d) {
    if (!knows(d->extent)) return true;
    const Expr* each = rows_of(d->extent);
    if (row_ || !each) return false;
    row_ = ctx_.dim(ctx_.declare_dim("row", batch_));
    const Expr* at = ctx_.mul(row_, each);
    if (each != one_) at = ctx_.add(at, ctx_.dim(ctx_.declare_dim("rest", each)));
    split_.emplace(ctx_.dim(d), at);
    return true;
  }

  bool nest(const Nest& n) {
    if (n.scan_dim && split_.contains(ctx_.dim(n.scan_dim))) return false;
    if (n.where && !is_blind(n.where)) return false;
    return std::all_of(n.writes.begin(), n.writes.end(), [&](const Write& w) { return is_stored(w.array, w.index) && is_blind(w.value); });
  }

  bool locals(const Proc& p) {
    return std::all_of(p.locals.begin(), p.locals.end(), [&](const loop::LocalArray& l) {
      return std::all_of(l.shape.begin(), l.shape.end(), [&](const Expr* e) { return is_blind(e); });
    });
  }
  bool block(const std::vector<loop::StmtPtr>& body) {
    return std::all_of(body.begin(), body.end(), [&](const loop::StmtPtr& s) {
      for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value})
        if (e && !is_blind(e)) return false;
      if (s->kind == loop::StmtKind::Store && !is_stored(s->array, {s->index.begin(), s->index.end()})) return false;
      return block(s->body) && block(s->orelse);
    });
  }

  // Writes of a row go to this row.
  bool is_stored(uint32_t array, const std::vector<const Expr*>& index) {
    const RowsOfBatch rows = array < kFirstLocal ? rows_[array] : RowsOfBatch();
    if (!rows.each && row_ && array < kFirstLocal) return false;  // rows would meet there
    for (size_t k = 0; k < index.size(); ++k) {
      const Expr* at = rows.each && k == rows.axis ? within_row(index[k], rows) : index[k];
      if (!at || !is_blind(at)) return false;
    }
    return true;
  }

  // The index less what the row makes of it; null if it is not in the row.
  const Expr* within_row(const Expr* index, const RowsOfBatch& rows) {
    if (!row_) return nullptr;
    const Expr* leaf[] = {row_};
    const auto linear = ir::linear_in(ctx_, ctx_.substitute(index, split_), leaf);
    if (!linear || linear->coefficients[0] != rows.each) return nullptr;
    const Expr* rest = linear->rest;
    if (rows.each == one_) return rest->is_int(0) ? rest : nullptr;
    const bool is_within = ir::proves(ctx_, ctx_.binary(Op::Le, ctx_.integer(0), rest)) && ir::proves(ctx_, ctx_.binary(Op::Lt, rest, rows.each));
    return is_within ? rest : nullptr;
  }

  // Whether an expression has the same value in every row whose elements are the same, however many there are.
  bool is_blind(const Expr* root) {
    bool good = true;
    std::function<const Expr*(const Expr*)> replace = [&](const Expr* e) -> const Expr* {
      if (e->op != Op::Load || e->array >= kFirstLocal || !rows_[e->array].each) return nullptr;
      std::vector<const Expr*> index(e->args.begin(), e->args.end());
      const RowsOfBatch& rows = rows_[e->array];
      const Expr* at = within_row(index[rows.axis], rows);
      good = good && at;
      index[rows.axis] = at ? at : ctx_.integer(0);
      for (const Expr*& i : index) i = ctx_.rewrite(i, replace);
      return ctx_.load(e->array, e->type, std::move(index), e->access);
    };
    const Expr* stripped = ctx_.substitute(ctx_.rewrite(root, replace), split_);
    if (!good || knows(stripped) || (row_ && ir::depends_on(stripped, row_))) return false;
    ir::walk(stripped, [&](const Expr* e) {
      if (e->op != Op::Fold) return;
      for (const ir::Dim* d : e->fold->dims) good = good && !knows(d->extent);
    });
    return good;
  }

  ir::Context& ctx_;
  const Function& f_;
  const Expr *const batch_, *const one_;
  std::vector<RowsOfBatch> rows_;  // of each array
  // Of the statement:
  const Expr* row_ = nullptr;  // null: it has no dim of the batch
  std::unordered_map<const Expr*, const Expr*> split_;
};

}  // namespace

const ir::Sym* independent_rows(ir::Context& ctx, const Function& f) {
  if (f.outputs.empty() || f.arrays[f.outputs[0]].shape.empty()) return nullptr;
  const Expr* extent = f.arrays[f.outputs[0]].shape[0];
  if (extent->op != Op::Sym) return nullptr;
  return Proof(ctx, f, extent->sym).run() ? extent->sym : nullptr;
}

}  // namespace mlc::nest
