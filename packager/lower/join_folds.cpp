// Softmax in a group is a maximum, exponentials, their sum: three nests, each of which takes all rows of a block through the cache
// of a core. Here the first two become part of the third: row by row, which stays in L1, and each exponential is written while it
// is summed. Norms are the same with a mean, differences, and their squares.
//
// No number changes: what is folded, and in which order, is what it was.
#include <algorithm>

#include "packager/lower/templates.h"

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
      if (join(stages_[k - 1], stages_[k])) {
        stages_.erase(stages_.begin() + static_cast<ptrdiff_t>(--k));
        k -= take_rows(k);
      }
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
    next.writes[0].value = ctx_.rewrite(value, [&](const Expr* e) { return e->op == Op::Load && e->array == w.buffer ? w.value : nullptr; });
    next.kept.push_back({fold_over(next.writes[0].value, folded), std::move(w)});
    return true;
  }

  // Values of the rows that stage `k` alone reads, which a stage before it writes, become part of it. How many stages that took.
  size_t take_rows(size_t k) {
    size_t taken = 0;
    for (size_t j = k; j-- > 0;)
      if (is_of_rows(j, k - taken)) {
        inline_rows(stages_[j], stages_[k - taken]);
        stages_.erase(stages_.begin() + static_cast<ptrdiff_t>(j));
        ++taken;
      }
    return taken;
  }

  bool is_of_rows(size_t j, size_t k) {
    const FlatNest &rows = stages_[j], &reader = stages_[k];
    if (!is_plain(rows) || rows.writes[0].buffer < num_params_ || rows.dims.size() != reader.dims.size()) return false;
    Facts facts;
    if (facts.needs_guard(rows.writes[0].value)) return false;
    const uint32_t buffer = rows.writes[0].buffer;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (s != j && std::any_of(stages_[s].writes.begin(), stages_[s].writes.end(), [&](const FlatWrite& w) { return w.buffer == buffer; })) return false;
      if (s == k) continue;
      for (const FlatWrite& w : stages_[s].writes)
        if (num_loads(w.value, buffer) > 0) return false;
      for (const Kept& kept : stages_[s].kept)
        if (kept.write.buffer == buffer || num_loads(kept.write.value, buffer) > 0) return false;
    }
    // What it reads is still there: nobody writes it before stage `k` does.
    for (size_t s = j + 1; s < k; ++s)
      for (const FlatWrite& w : stages_[s].writes)
        if (num_loads(rows.writes[0].value, w.buffer) > 0) return false;
    const Expr* address = ctx_.substitute(rows.writes[0].address, same_rows(rows, reader));
    bool fits = rows.dims.empty() || same_extent(rows.dims[0], reader.dims[0]);
    ir::walk(reader.writes[0].value, [&](const Expr* e) {
      if (e->op == Op::Load && e->array == buffer) fits &= ctx_.sub(e->args[0], address)->is_int(0);
    });
    return fits && num_loads(reader.writes[0].value, buffer) > 0;
  }

  void inline_rows(const FlatNest& rows, FlatNest& reader) {
    const Expr* value = ctx_.substitute(rows.writes[0].value, same_rows(rows, reader));
    const auto known = [&](const Expr* e) { return e->op == Op::Load && e->array == rows.writes[0].buffer ? value : nullptr; };
    Kept& kept = reader.kept.front();
    const ir::Dim* folded = kept.fold->fold->dims[0];
    reader.writes[0].value = ctx_.rewrite(reader.writes[0].value, known);
    kept.write.value = ctx_.rewrite(kept.write.value, known);
    kept.fold = fold_over(reader.writes[0].value, folded);
  }

  Places same_rows(const FlatNest& from, const FlatNest& to) {
    Places places;
    if (!from.dims.empty()) places.emplace(ctx_.dim(from.dims[0]), ctx_.dim(to.dims[0]));
    return places;
  }

  static bool same_extent(const ir::Dim* a, const ir::Dim* b) { return a->extent == b->extent; }

  // The dims of `map` as the row of `next` and as its folded dim. Which is which, their extents must tell, or their order.
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
