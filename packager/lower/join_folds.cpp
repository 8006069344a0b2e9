// Softmax in a group is a maximum, exponentials, their sum: three nests, each of which takes all rows of a block through the cache
// of a core. Here the second becomes part of the third: each exponential is written while it is summed. Norms are the same with a
// mean, differences, and their squares.
//
// No number changes: what is folded, and in which order, is what it was. The maximum stays a nest of its own: beside the exponentials of its
// row each row would wait for it, and rows of some hundred elements are over before the next one has begun.
#include <algorithm>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

using Places = std::unordered_map<const Expr*, const Expr*>;

bool is_plain(const FlatNest& nest) {
  if (nest.where || nest.scan_dim || nest.writes.size() != 1 || !nest.kept.empty()) return false;
  const FlatWrite& w = nest.writes[0];
  return !w.push && !w.in_range;
}

size_t num_loads(const Expr* root, uint32_t buffer) {
  size_t count = 0;
  ir::walk(root, [&](const Expr* e) { count += e->op == Op::Load && e->array == buffer; });
  return count;
}

class Joiner {
 public:
  Joiner(ir::Context& ctx, std::vector<FlatNest>& stages, size_t num_params) : ctx_(ctx), stages_(stages), num_params_(num_params) {}

  void run() {
    for (size_t k = 1; k < stages_.size(); ++k)
      if (join(stages_[k - 1], stages_[k])) stages_.erase(stages_.begin() + static_cast<ptrdiff_t>(--k));
  }

 private:
  // Makes the only fold of `next`, over what `map` writes, write it.
  bool join(const FlatNest& map, FlatNest& next) {
    Facts facts;
    if (!is_plain(map) || !is_plain(next) || map.writes[0].buffer < num_params_ || next.dims.size() > 1) return false;
    if (facts.has_fold(map.writes[0].value) || facts.needs_guard(map.writes[0].value)) return false;
    const Expr* value = next.writes[0].value;
    const Expr* fold = only_fold(value);
    if (!fold || facts.needs_guard(value) || !is_unconditional(value, fold) || fold->args.size() != 1 || fold->fold->where || fold->fold->dims.size() != 1) return false;
    const ir::Dim* folded = fold->fold->dims[0];
    const auto places = places_of(map, next, folded);
    if (!places) return false;
    FlatWrite w = map.writes[0];
    w.address = ctx_.substitute(w.address, *places);
    w.value = ctx_.substitute(w.value, *places);
    w.index.clear();
    bool fits = is_contiguous(ctx_, w.address, folded) && num_loads(fold->args[0], w.buffer) > 0;
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Load && e->array == w.buffer) fits &= e->access == ir::Access::Clamped && ctx_.sub(e->args[0], w.address)->is_int(0);
    });
    if (!fits || num_loads(value, w.buffer) != num_loads(fold->args[0], w.buffer)) return false;
    const Expr* joined = ctx_.rewrite(value, [&](const Expr* e) { return e->op == Op::Load && e->array == w.buffer ? w.value : nullptr; });
    // A fold that is the same for all rows is computed once, before them, where no row could be written.
    const Expr* writing = fold_over(joined, folded);
    if (!writing) return false;
    for (const ir::Dim* row : next.dims)
      if (!ir::depends_on(writing, ctx_.dim(row))) return false;
    next.writes[0].value = joined;
    next.kept.push_back({writing, std::move(w)});
    return true;
  }

  static bool same_extent(const ir::Dim* a, const ir::Dim* b) { return a->extent == b->extent; }

  // The dims of `map` as the row of `next` and as its folded dim. Extents say which is which, or else their order.
  std::optional<Places> places_of(const FlatNest& map, const FlatNest& next, const ir::Dim* folded) {
    if (map.dims.size() != next.dims.size() + 1 || !same_extent(map.dims.back(), folded)) return std::nullopt;
    Places places{{ctx_.dim(map.dims.back()), ctx_.dim(folded)}};
    if (next.dims.empty()) return places;
    if (!same_extent(map.dims[0], next.dims[0])) return std::nullopt;
    places.emplace(ctx_.dim(map.dims[0]), ctx_.dim(next.dims[0]));
    return places;
  }

  static const Expr* only_fold(const Expr* value) {
    const Expr* found = nullptr;
    size_t count = 0;
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Fold) found = e, ++count;
    });
    return count == 1 ? found : nullptr;
  }

  static const Expr* fold_over(const Expr* value, const ir::Dim* d) {
    const Expr* found = nullptr;
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Fold && e->fold->dims.size() == 1 && e->fold->dims[0] == d) found = e;
    });
    return found;
  }

  ir::Context& ctx_;
  std::vector<FlatNest>& stages_;
  const size_t num_params_;
};

}  // namespace

void join_folds(ir::Context& ctx, std::vector<FlatNest>& stages, size_t num_params) { Joiner(ctx, stages, num_params).run(); }

}  // namespace mlc::lower
