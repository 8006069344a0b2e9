// Devices: folds over the points of a row and what is made of them for each point are one statement, whose lanes share the row: a
// softmax, a norm, a quantisation by rows.
//
//   top[r] = max(x[r, u] for u);  part[r, u] = exp(x[r, u] - top[r]);  all[r] = sum(part[r, u] for u);  y[r, u] = part[r, u] / all[r]
//   becomes    y[r, u] = exp(x[r, u] - max(x[r, v] for v)) / sum(exp(x[r, w] - max(x[r, v] for v)) for w)
//
// What statements before wrote for each element is computed wherever it is read, since that costs a device less than memory; equal
// folds are one (packager/lower/device/lines.cpp). Processors keep such rows in a cache instead (group.cpp).
#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/nest/facts/contraction.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Join;
using ir::Op;

constexpr size_t kMostRowNodes = 2000;
constexpr size_t kMostFolds = 16;              // of a statement: each is held against each

class RowFusion {
 public:
  RowFusion(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)) {}

  void run() {
    for (size_t s = f_.body.size(); s-- > 0;)
      if (is_map(f_.body[s]) && !is_gone(s) && !has_product(f_.body[s].nest->dims, f_.body[s].nest->writes[0].value)) absorb(s);
    remove_dead(f_);
  }

 private:
  static bool is_map(const nest::Statement& s) {
    return s.nest && s.nest->writes.size() == 1 && !s.nest->where && !s.nest->scan_dim && !s.nest->writes[0].push;
  }
  bool is_gone(size_t s) const { return absorbed_.contains(s); }

  // Statements before `s` become part of it, as long as its value has the form of rows in the end.
  void absorb(size_t s) {
    nest::Write& w = f_.body[s].nest->writes[0];
    const Expr* value = w.value;
    std::set<size_t> taken, kept;
    while (const auto next = last_producer(s, value, taken)) {
      PlainMap p;
      if (!plain_map(f_.body[*next], p) || would_capture(value, p)) break;
      value = replace_loads(ctx_, value, p.write->array, [&](const Expr* load) { return composed(ctx_, p, load); });
      if (node_count(value, kMostRowNodes) == kMostRowNodes) break;
      taken.insert(*next);
      if (is_by_rows(f_.body[s].nest->dims, value)) w.value = value, kept = taken;
    }
    if (kept.empty()) return;
    absorbed_.insert(kept.begin(), kept.end());
    update_reads(uses_, f_, s);
    for (const size_t k : kept)  // they stand in the body until the end, and read nothing that counts
      for (const uint32_t array : uses_.reads[k]) uses_.readers[array].erase(k);
  }

  // The last statement before `s` whose result `value` reads and nothing but `s` and those taken does.
  std::optional<size_t> last_producer(size_t s, const Expr* value, const std::set<size_t>& taken) const {
    std::optional<size_t> last;
    ir::walk(value, [&](const Expr* e) {
      if (e->op != Op::Load || uses_.writers[e->array].size() != 1) return;
      const size_t producer = uses_.writers[e->array].front();
      if (producer < s && (!last || producer > *last) && may_join(producer, s, e->array, taken)) last = producer;
    });
    return last;
  }

  bool may_join(size_t producer, size_t s, uint32_t array, const std::set<size_t>& taken) const {
    const nest::Statement& from = f_.body[producer];
    PlainMap p;
    if (from.part != f_.body[s].part || f_.arrays[array].kind != nest::Array::Kind::Temp || uses_.output[array] || !plain_map(from, p)) return false;
    const auto is_ours = [&](size_t reader) { return reader == s || taken.contains(reader); };
    if (!std::all_of(uses_.readers[array].begin(), uses_.readers[array].end(), is_ours)) return false;
    const auto is_complete = [&](uint32_t a) { return std::all_of(uses_.writers[a].begin(), uses_.writers[a].end(), [&](size_t w) { return w < producer; }); };
    if (!std::all_of(uses_.reads[producer].begin(), uses_.reads[producer].end(), is_complete)) return false;
    return has_fold(p.write->value) ? !has_product(p.nest->dims, p.write->value) : cost_of(p.write->value) <= targets::kAnyDevice.repeated_operations;
  }

  // A dim of the reader that is one of a fold of what is read would become part of it.
  bool would_capture(const Expr* value, const PlainMap& p) const {
    bool captured = false;
    ir::walk(p.write->value, [&](const Expr* fold) {
      if (fold->op != Op::Fold) return;
      for (const ir::Dim* d : fold->fold->dims) captured |= ir::depends_on(value, ctx_.dim(d));
    });
    return captured;
  }

  // A sum over products of rows and columns.
  bool has_product(const std::vector<const ir::Dim*>& dims, const Expr* value) const {
    bool found = false;
    ir::walk(value, [&](const Expr* e) {
      const auto c = nest::contraction_of(ctx_, dims, e);
      found |= c && !c->m.empty() && !c->n.empty();
    });
    return found;
  }

  // All folds run over the points of the same rows, which are neighbours in memory.
  bool is_by_rows(const std::vector<const ir::Dim*>& dims, const Expr* value) const {
    std::vector<const Expr*> folds;
    bool plain = true;
    ir::walk(value, [&](const Expr* e) {
      plain &= e->op != Op::Load || e->access != ir::Access::Checked;  // lanes that wait for each other cannot stop at a fault
      if (e->op == Op::Fold) folds.push_back(e);
    });
    if (!plain || folds.empty() || folds.size() > kMostFolds) return false;
    const std::vector<const ir::Dim*> rows = known_dims(dims, folds[0]);
    double longest = 0;
    bool contiguous = false;
    for (const Expr* fold : folds) {
      const ir::Combiner& c = *fold->fold->combiner;
      if (!c.commutative || c.join == Join::Last || fold->fold->dims.empty() || known_dims(dims, fold) != rows) return false;
      for (const Expr* other : folds)  // one that knows points of another one is no fold of the row
        for (const ir::Dim* d : other->fold->dims)
          if (ir::depends_on(fold, ctx_.dim(d)) && std::find(fold->fold->dims.begin(), fold->fold->dims.end(), d) == fold->fold->dims.end() && !contains(fold, other)) return false;
      longest = std::max(longest, estimate(fold->fold->dims));
      contiguous |= reads_neighbours(fold);
    }
    if (longest < targets::kAnyDevice.shared_fold_points || (longest > targets::kAnyDevice.line_points && estimate(rows) < targets::kAnyDevice.few_blocks)) return false;
    return contiguous || (rows.size() == dims.size() && estimate(rows) < targets::kAnyDevice.few_blocks);
  }

  static bool contains(const Expr* fold, const Expr* part) { return ir::depends_on(fold, part); }

  std::vector<const ir::Dim*> known_dims(const std::vector<const ir::Dim*>& dims, const Expr* fold) const {
    std::vector<const ir::Dim*> known;
    for (const ir::Dim* d : dims)
      if (ir::depends_on(fold, ctx_.dim(d))) known.push_back(d);
    return known;
  }

  // Whether neighbouring points of the fold are neighbours in an array.
  bool reads_neighbours(const Expr* fold) const {
    const ir::Dim* last = fold->fold->dims.back();
    bool found = false;
    for (const Expr* body : fold->args)
      ir::walk(body, [&](const Expr* e) {
        if (found || e->op != Op::Load || !ir::depends_on(e, ctx_.dim(last))) return;
        const nest::Array& a = f_.arrays[e->array];
        const Expr* leaf[] = {ctx_.dim(last)};
        const auto lin = ir::linear_in(ctx_, nest::address(ctx_, a.layout, a.shape, {e->args.begin(), e->args.end()}), leaf);
        found = lin && ir::without_steps(ctx_, lin->coefficients[0])->is_int(1);
      });
    return found;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  Uses uses_;
  std::set<size_t> absorbed_;
};

}  // namespace

Status join_rows(ir::Context& ctx, nest::Function& f) {
  RowFusion(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
