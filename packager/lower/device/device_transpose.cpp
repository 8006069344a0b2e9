// Maps that read an array across its grain, on a device: a block reads 32 x 32 elements as stored, into shared memory whose rows are one
// element longer, so that reading them the other way meets no bank twice; and writes them as they are to lie.
#include <algorithm>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;
using schedule::Bind;
using schedule::Family;

namespace {

constexpr unsigned kTransposeLanes = 128;
constexpr int64_t kSide = 32;
constexpr double kLeast = 16;      // points along and across
constexpr size_t kMostLoads = 3;   // squares that the memory of a block has

class Squares final : public Stage {
 public:
  Squares(const Job& job, const FlatNest& nest, Skeleton& k, const Crossed& c, const schedule::Schedule& how) : Stage(job, nest, k), c_(c) {
    schedule = schedule::print(how);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : n_.dims) {
      extents.push_back(d->extent);
      if (d == c_.across || d == c_.along) continue;
      others_.push_back(d);
      grid.push_back(d->extent);
    }
    for (const ir::Dim* d : {c_.across, c_.along}) grid.push_back(ctx_.ceildiv(d->extent, ctx_.integer(kSide)));
    for (const Expr* load : c_.loads) memory_.push_back(k_.shared("square", load->type.dtype, kSide * (kSide + 1)));
    work = k_.takes(kOperationNs, extents, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    for (size_t k = 0; k < others_.size(); ++k) s_.bind(others_[k], at[k]);
    const Expr* side = ctx_.integer(kSide);
    const Expr *across = k_.b.let(ctx_.mul(at[others_.size()], side)), *along = k_.b.let(ctx_.mul(at[others_.size() + 1], side));
    const Expr *quick = k_.b.let(ctx_.floormod(lane, side)), *slow = k_.b.let(ctx_.floordiv(lane, side));
    const auto steps = [&](const std::function<void(const Expr*)>& body) {
      k_.b.with_for(ctx_.integer(0), side, kTransposeLanes / kSide, [&](const Expr* i) { s_.scoped([&] { body(k_.b.let(ctx_.add(i, slow))); }); });
    };
    steps([&](const Expr* row) {
      // Beyond the end the last element is read again.
      const auto existing = [&](const ir::Dim* d, const Expr* point) { return k_.b.let(ctx_.min(point, ctx_.sub(d->extent, ctx_.integer(1)))); };
      s_.bind(c_.across, existing(c_.across, ctx_.add(across, row)));
      s_.bind(c_.along, existing(c_.along, ctx_.add(along, quick)));
      for (size_t k = 0; k < memory_.size(); ++k) k_.b.store(memory_[k], place(row, quick), s_.value(c_.loads[k]));
    });
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* to = k_.b.let(ctx_.add(across, quick));
    if_exists(c_.across, to, [&] {
      steps([&](const Expr* row) {
        const Expr* from = k_.b.let(ctx_.add(along, row));
        if_exists(c_.along, from, [&] {
          s_.bind(c_.across, to);
          s_.bind(c_.along, from);
          for (size_t k = 0; k < memory_.size(); ++k)
            s_.define(c_.loads[k], k_.b.let(loop::vec_load(ctx_, memory_[k], c_.loads[k]->type, place(quick, row))));
          emit_writes(s_, k_.b, n_, nullptr);
        });
      });
    });
  }

  const Expr* place(const Expr* row, const Expr* column) { return ctx_.add(ctx_.mul(row, ctx_.integer(kSide + 1)), column); }

  void if_exists(const ir::Dim* d, const Expr* point, const std::function<void()>& body) {
    const auto scoped = [&] { s_.scoped(body); };
    ir::divisor_of(d->extent) % kSide == 0 ? scoped() : k_.b.with_if(ctx_.binary(Op::Lt, point, d->extent), scoped);
  }

  const Crossed c_;
  std::vector<const ir::Dim*> others_;
  std::vector<uint32_t> memory_;  // one per load
};

}  // namespace

std::optional<Schedules> device_transposes(const Job& job, const FlatNest& nest) {
  auto c = crossed(job.ctx, nest, kLeast);
  if (!c || c->loads.size() > kMostLoads) return std::nullopt;
  bool faults = false;  // lanes that wait for each other cannot stop at one
  ir::walk(nest.writes[0].value, [&](const Expr* e) { faults |= e->op == Op::Load && e->access == Access::Checked; });
  if (faults) return std::nullopt;
  Schedules s;
  DimNames names;
  s.space.family = Family::Transpose;
  s.space.block = kTransposeLanes;
  s.space.needed_places = s.space.places = {"loads"};
  schedule::Schedule best{.family = Family::Transpose, .places = {{"loads"}}, .block = kTransposeLanes, .vector_bytes = job.vector_bytes()};
  for (const ir::Dim* d : nest.dims) {
    schedule::Space::Dim& dim = s.space.dims.emplace_back();
    dim.name = names.add(d);
    dim.extent = d->extent->is_const() ? d->extent->i : -1;
    dim.cut = true;
    dim.serial = false;
    best.loops.push_back({.dim = dim.name, .bind = Bind::Grid});
  }
  s.ranked.push_back(std::move(best));
  s.build = [&job, &nest, c = std::move(*c)](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
    return std::make_unique<Squares>(job, nest, k, c, how);
  };
  return s;
}

}  // namespace mlc::lower
