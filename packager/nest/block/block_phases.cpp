// A transposed convolution sums x[(o + lo - k) / s] * w[k] over the k for which s divides o + lo - k. Of the points o = s*o1 + p only every
// s-th k counts, k = s*k1 + r(p): for each p the rest of the condition is known, and all indices are affine in o1 and k1. So the nest is
// done in s parts, which together have the points of the nest, each of them with the taps that count in the order in which they were.
#include <algorithm>
#include <numeric>

#include "packager/nest/block/block_compiler.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {
constexpr int64_t kMostPhases = 64;  // of all dims together

int64_t remainder(int64_t a, int64_t s) { return ((a % s) + s) % s; }
}  // namespace

Phase BlockCompiler::phase_of(const ir::Dim* d) const {
  const auto at = phases_.find(d);
  return at == phases_.end() ? Phase() : at->second;
}

// Null: there is none, or more than one.
const Expr* BlockCompiler::only_fold() const {
  const Expr* fold = nullptr;
  bool one = true;
  const auto look = [&](const Expr* e) {
    if (e->op != Op::Fold || e == fold) return;
    one = one && !fold;
    fold = e;
  };
  const Nest& nest = *statement_.nest;
  if (nest.where) ir::walk(nest.where, look);
  for (const Write& w : nest.writes) {
    ir::walk(w.value, look);
    for (const Expr* i : w.index) ir::walk(i, look);
  }
  return one ? fold : nullptr;
}

std::optional<BlockCompiler::Split> BlockCompiler::split_of(const Expr* term, const Expr* fold) const {
  if (term->op != Op::Eq || term->args[0]->type.dtype != DType::I64) return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    const Expr *mod = term->args[side], *zero = term->args[1 - side];
    if (mod->op != Op::FloorMod || !zero->is_int(0)) continue;
    const auto &sum = facts_.at(mod->args[0]).affine, &by = facts_.at(mod->args[1]).affine;
    if (!sum || !by || std::any_of(by->k.begin(), by->k.end(), [](int64_t k) { return k != 0; }) || by->c < 2 || by->c > kMostPhases) continue;
    Split split{.s = by->c};
    split.c = remainder(sum->c, split.s);
    bool fits = true;
    for (size_t slot = 0; slot < sum->k.size(); ++slot) {
      const int64_t along = remainder(sum->k[slot], split.s);
      if (along == 0) continue;
      const ir::Dim* d = program_.dims[slot];
      const auto& folded = fold->fold->dims;
      const bool of_map = slot < program_.map_dims;
      fits = fits && !(of_map ? split.o : split.k) && (of_map || std::find(folded.begin(), folded.end(), d) != folded.end());
      (of_map ? split.o : split.k) = d;
      (of_map ? split.along_o : split.along_k) = along;
    }
    if (fits && split.o && split.k && std::gcd(split.along_k, split.s) == 1) return split;
  }
  return std::nullopt;
}

Result<std::vector<Phases>> BlockCompiler::phases() {
  const Nest& nest = *statement_.nest;
  if (nest.scan_dim || std::any_of(nest.writes.begin(), nest.writes.end(), [](const Write& w) { return w.push; })) return std::vector<Phases>();
  const Expr* fold = only_fold();
  if (!fold || !fold->fold->where) return std::vector<Phases>();
  MLC_RETURN_IF_ERROR(analyse_all());
  if (facts_.at(fold->fold->where).reads) return std::vector<Phases>();
  std::vector<Phases> all{{}};
  std::vector<const Expr*> terms{fold->fold->where};
  while (!terms.empty()) {
    const Expr* term = terms.back();
    terms.pop_back();
    if (term->op == Op::And) {
      terms.insert(terms.end(), term->args.begin(), term->args.end());
      continue;
    }
    const auto split = split_of(term, fold);
    if (!split || all[0].contains(split->o) || all[0].contains(split->k) || static_cast<int64_t>(all.size()) * split->s > kMostPhases) continue;
    std::vector<Phases> finer;
    for (const Phases& phases : all)
      for (int64_t p = 0; p < split->s; ++p) {
        int64_t r = 0;
        while (remainder(split->along_o * p + split->along_k * r + split->c, split->s) != 0) ++r;
        Phases& one = finer.emplace_back(phases);
        one[split->o] = {split->s, p};
        one[split->k] = {split->s, r};
      }
    all = std::move(finer);
  }
  return all[0].empty() ? std::vector<Phases>() : all;
}

}  // namespace mlc::nest
