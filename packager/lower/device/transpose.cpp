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
    work = k_.takes(job_.operation_ns(), extents, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    for (size_t k = 0; k < others_.size(); ++k) s_.bind(others_[k], at[k]);
    const Expr* side = ctx_.integer(kSide);
    across_ = k_.b.let(ctx_.mul(at[others_.size()], side));
    along_ = k_.b.let(ctx_.mul(at[others_.size() + 1], side));
    bring(lane);
    k_.b.append(loop::StmtKind::Barrier);
    write(lane);
  }

  // Lanes that have `neighbours` of the quick direction each: which of them this one has first, and the slow places that are its own.
  void over_square(const Expr* lane, int64_t neighbours, const std::function<void(const Expr* quick, const std::function<void(const std::function<void(const Expr*)>&)>& steps)>& body) {
    const Expr* lanes = ctx_.integer(kSide / neighbours);
    const Expr *quick = k_.b.let(ctx_.mul(ctx_.floormod(lane, lanes), ctx_.integer(neighbours))), *slow = k_.b.let(ctx_.floordiv(lane, lanes));
    body(quick, [&](const std::function<void(const Expr*)>& step) {
      const int64_t stride = kTransposeLanes * neighbours / kSide;
      if (job_.target.access_bytes > 0) {  // written out, all that a lane reads is under way at once
        for (int64_t i = 0; i < kSide; i += stride) s_.scoped([&] { step(k_.b.let(ctx_.add(slow, ctx_.integer(i)))); });
        return;
      }
      k_.b.with_for(ctx_.integer(0), ctx_.integer(kSide), stride, [&](const Expr* i) { s_.scoped([&] { step(k_.b.let(ctx_.add(i, slow))); }); });
    });
  }

  void bring(const Expr* lane) {
    const int64_t neighbours = neighbours_in_loads(job_, c_.loads, c_.along);
    over_square(lane, neighbours, [&](const Expr* quick, const auto& steps) {
      steps([&](const Expr* row) {
        // Beyond the end the last elements are read again.
        const auto existing = [&](const ir::Dim* d, const Expr* point, int64_t count) { return k_.b.let(ctx_.min(point, ctx_.sub(d->extent, ctx_.integer(count)))); };
        s_.bind(c_.across, existing(c_.across, ctx_.add(across_, row), 1));
        const Expr* first = existing(c_.along, ctx_.add(along_, quick), neighbours);
        for (size_t k = 0; k < memory_.size(); ++k)
          for (int64_t u = 0; u < neighbours; ++u)
            s_.scoped([&] {
              s_.bind(c_.along, ctx_.add(first, ctx_.integer(u)));
              k_.b.store(memory_[k], place(row, ctx_.add(quick, ctx_.integer(u))), s_.value(c_.loads[k]));
            });
      });
    });
  }

  void write(const Expr* lane) {
    const int64_t neighbours = neighbours_of_writes();
    over_square(lane, neighbours, [&](const Expr* quick, const auto& steps) {
      const Expr* to = k_.b.let(ctx_.add(across_, quick));
      if_exists(c_.across, to, [&] {
        steps([&](const Expr* row) {
          const Expr* from = k_.b.let(ctx_.add(along_, row));
          if_exists(c_.along, from, [&] {
            s_.bind(c_.along, from);
            for (int64_t u = 0; u < neighbours; ++u)
              s_.scoped([&] {
                s_.bind(c_.across, ctx_.add(to, ctx_.integer(u)));
                for (size_t k = 0; k < memory_.size(); ++k)
                  s_.define(c_.loads[k], k_.b.let(loop::vec_load(ctx_, memory_[k], c_.loads[k]->type, place(ctx_.add(quick, ctx_.integer(u)), row))));
                emit_writes(s_, k_.b, n_, nullptr);
              });
          });
        });
      });
    });
  }

  // What is read crosswise comes from the square: of the others only those along the write count.
  int64_t neighbours_of_writes() {
    FlatNest rest = n_;
    for (FlatWrite& w : rest.writes)
      w.value = ctx_.rewrite(w.value, [&](const Expr* e) -> const Expr* {
        const bool is_here = std::find(c_.loads.begin(), c_.loads.end(), e) != c_.loads.end();
        return !is_here ? nullptr : is_float(e->type.dtype) ? ctx_.number(0, e->type.dtype) : e->type.dtype == DType::Bool ? ctx_.boolean(false) : ctx_.integer(0, e->type.dtype);
      });
    return neighbours_in_writes(job_, rest, c_.across);
  }

  const Expr* place(const Expr* row, const Expr* column) { return ctx_.add(ctx_.mul(row, ctx_.integer(kSide + 1)), column); }

  void if_exists(const ir::Dim* d, const Expr* point, const std::function<void()>& body) {
    const auto scoped = [&] { s_.scoped(body); };
    ir::divisor_of(d->extent) % kSide == 0 ? scoped() : k_.b.with_if(ctx_.binary(Op::Lt, point, d->extent), scoped);
  }

  const Crossed c_;
  std::vector<const ir::Dim*> others_;
  std::vector<uint32_t> memory_;  // one per load
  const Expr *across_ = nullptr, *along_ = nullptr;  // where the square begins
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
