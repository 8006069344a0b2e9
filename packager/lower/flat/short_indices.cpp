// Folds that find a place (ArgMax, pooling with indices) compare values of 4 bytes and places of 8. Where all places are known to lie
// below 2^31, the fold has them in 4 bytes: as many lanes as for the values, and no conversion of masks between widths.
//
// A field is such a place if the combiner does nothing with it but compare it with its other side and choose between the two. What the
// fold starts from is the highest number, which stands for 2^31 - 1 inside, or one of 4 bytes. The results are the same bit by bit.
#include <algorithm>

#include "packager/lower/flat/flat.h"

namespace mlc::lower {
namespace {

using ir::Expr;
using ir::Op;

constexpr int64_t kHighest = INT32_MAX;

bool compares(Op op) { return op == Op::Lt || op == Op::Le || op == Op::Eq || op == Op::Ne; }

class ShortIndices {
 public:
  explicit ShortIndices(ir::Context& ctx) : ctx_(ctx) {}

  const Expr* of(const Expr* value) {
    return ctx_.rewrite(value, [&](const Expr* e) -> const Expr* {
      if (e->op != Op::Field || e->args[0]->op != Op::Fold) return nullptr;
      const Short& s = shortened(e->args[0]);
      if (!s.fold) return nullptr;
      const auto k = static_cast<size_t>(e->i);
      const Expr* field = ctx_.field(s.fold, static_cast<unsigned>(k));
      if (!s.fields[k]) return field;
      const Expr* wide = ctx_.cast(DType::I64, field);
      if (!e->args[0]->fold->combiner->units[k]->is_int(INT64_MAX)) return wide;
      return ctx_.select(ctx_.binary(Op::Eq, field, ctx_.integer(kHighest, DType::I32)), ctx_.integer(INT64_MAX), wide);
    });
  }

 private:
  struct Short {
    const Expr* fold = nullptr;  // null: nothing of it becomes shorter
    std::vector<bool> fields;
  };

  const Short& shortened(const Expr* fold) {
    const auto [found, is_new] = done_.try_emplace(fold);
    if (is_new) found->second = made(fold);
    return found->second;
  }

  Short made(const Expr* fold) {
    const ir::Combiner& c = *fold->fold->combiner;
    Short s;
    if (c.join != ir::Join::Custom || fold->args.size() < 2) return s;
    bool any = false;
    for (size_t k = 0; k < fold->args.size(); ++k) {
      s.fields.push_back(is_place(fold, k));
      any |= s.fields[k];
    }
    if (!any) return s;
    ir::Combiner shorter{c.name, c.join, c.commutative, {}, {}, {}, {}};
    std::unordered_map<const Expr*, const Expr*> renamed;
    std::vector<const Expr*> bodies;
    for (size_t k = 0; k < fold->args.size(); ++k) {
      bodies.push_back(s.fields[k] ? ctx_.cast(DType::I32, fold->args[k]) : fold->args[k]);
      shorter.units.push_back(s.fields[k] ? ctx_.integer(std::min(c.units[k]->i, kHighest), DType::I32) : c.units[k]);
      for (auto [from, to] : {std::pair{&c.left, &shorter.left}, std::pair{&c.right, &shorter.right}}) {
        to->push_back(ctx_.fresh_var(s.fields[k] ? ir::Type{DType::I32} : (*from)[k]->type));
        renamed[(*from)[k]] = to->back();
      }
    }
    for (const Expr* join : c.joins) shorter.joins.push_back(ctx_.substitute(join, renamed));
    s.fold = ctx_.fold({ctx_.declare_combiner(std::move(shorter)), fold->fold->dims, fold->fold->where}, std::move(bodies));
    return s;
  }

  static bool is_place(const Expr* fold, size_t k) {
    const ir::Combiner& c = *fold->fold->combiner;
    const Expr *body = fold->args[k], *unit = c.units[k];
    if (body->type.dtype != DType::I64 || !unit->is_const() || c.left[k]->type.dtype != DType::I64) return false;
    if (unit->i != INT64_MAX && (unit->i < INT32_MIN || unit->i >= kHighest)) return false;
    const ir::Interval places = ir::interval_of(body);
    if (places.lo < INT32_MIN || places.hi >= kHighest) return false;
    const Expr* own = c.joins[k];
    const bool chooses = own->op == Op::Select && is_side(own->args[1], c, k) && is_side(own->args[2], c, k);
    if (!chooses && !is_side(own, c, k)) return false;
    bool only = true;
    for (const Expr* join : c.joins)
      ir::walk(join, [&](const Expr* e) {
        const auto sides = std::count_if(e->args.begin(), e->args.end(), [&](const Expr* a) { return is_side(a, c, k); });
        only &= sides == 0 || (sides == 2 && (e == own || compares(e->op)));
      });
    return only;
  }

  static bool is_side(const Expr* e, const ir::Combiner& c, size_t k) { return e == c.left[k] || e == c.right[k]; }

  ir::Context& ctx_;
  std::unordered_map<const Expr*, Short> done_;
};

}  // namespace

void short_indices(ir::Context& ctx, FlatNest& nest) {
  if (!nest.kept.empty()) return;
  ShortIndices shorter(ctx);
  for (FlatWrite& w : nest.writes) w.value = shorter.of(w.value);
}

}  // namespace mlc::lower
