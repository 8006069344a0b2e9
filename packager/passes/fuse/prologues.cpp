// What is one number and takes less than a launch is computed by each statement that reads it, before its loops: a fold over the
// pieces of a longer one (split_folds.cpp), a scale made of two of these. No worker waits then for the one that would compute
// it. On a device each lane would fold anew: there, numbers without folds alone are computed so. Products read it as before, where it stays; what is left of such statements is one launch where they are neighbours.
#include <algorithm>

#include "packager/nest/facts/contraction.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr size_t kMostNodes = 120, kMostNodesOfReader = 600;

class Prologues {
 public:
  Prologues(ir::Context& ctx, nest::Function& f, bool with_folds) : ctx_(ctx), f_(f), with_folds_(with_folds) {}

  void run() {
    uses_ = uses_of(f_);
    for (size_t s = 0; s < f_.body.size(); ++s) {
      PlainMap p;
      if (!is_alone(s) || !is_number(f_.body[s], p) || !is_cheap(p.write->value)) continue;
      const uint32_t y = p.write->array;
      if (uses_.writers[y].size() != 1) continue;
      const std::set<size_t> readers = uses_.readers[y];
      for (const size_t r : readers)
        if (r > s && f_.body[r].part == f_.body[s].part && reads_once_per_run(r, y)) replace(r, p);
    }
    remove_dead(f_);
    merge_neighbours();
  }

 private:
  bool is_alone(size_t s) const { return !f_.body[s].joins && (s + 1 == f_.body.size() || !f_.body[s + 1].joins); }

  static bool is_number(const nest::Statement& s, PlainMap& p) {
    return plain_map(s, p) && std::all_of(p.nest->dims.begin(), p.nest->dims.end(), [](const ir::Dim* d) { return d->extent->is_int(1); });
  }

  bool is_cheap(const Expr* value) const {
    bool cheap = node_count(value, kMostNodes) < kMostNodes;
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Load) cheap &= e->access != ir::Access::Checked;
      if (e->op == Op::Fold)
        cheap &= with_folds_ && !e->fold->where && estimate(e->fold->dims) <= targets::kAnyProcessor.refolded_points &&
                 std::all_of(e->args.begin(), e->args.end(), [](const Expr* body) { return body->op == Op::Load; });
    });
    return cheap;
  }

  // Whether statement `r` needs the number for every point, and no product stands in it: then it is computed once for each part.
  bool reads_once_per_run(size_t r, uint32_t y) const {
    const nest::Statement& s = f_.body[r];
    if (!is_alone(r) || !s.nest || s.nest->where || s.nest->scan_dim) return false;
    bool fits = true;
    for (const nest::Write& w : s.nest->writes) {
      fits &= !w.push;
      for (const Expr* e : w.index) fits &= !loads(e, y);
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op == Op::Load)
          for (const Expr* index : e->args) fits &= !loads(index, y);
        if (e->op != Op::Fold) return;
        fits &= !nest::contraction_of(ctx_, s.nest->dims, e);
        for (const Expr* body : e->args) fits &= !loads(body, y);
        if (e->fold->where) fits &= !loads(e->fold->where, y);
      });
    }
    return fits && !is_choice(s, y);
  }
  static bool loads(const Expr* root, uint32_t y) {
    bool found = false;
    ir::walk(root, [&](const Expr* e) { found |= e->op == Op::Load && e->array == y; });
    return found;
  }
  // Whether some points need it and others do not.
  static bool is_choice(const nest::Statement& s, uint32_t y) {
    bool found = false;
    for (const nest::Write& w : s.nest->writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Select && e->op != Op::And && e->op != Op::Or) return;
        for (size_t k = 1; k < e->args.size(); ++k) found |= loads(e->args[k], y);
      });
    return found && std::any_of(s.nest->dims.begin(), s.nest->dims.end(), [](const ir::Dim* d) { return !d->extent->is_int(1); });
  }

  void replace(size_t r, const PlainMap& p) {
    nest::Statement& s = f_.body[r];
    size_t nodes = node_count(p.write->value, kMostNodesOfReader);
    for_roots(s, [&](const Expr* e) { nodes += node_count(e, kMostNodesOfReader); });
    if (nodes > kMostNodesOfReader) return;
    map_roots(s, [&](const Expr* root) {
      return replace_loads(ctx_, root, p.write->array, [&](const Expr* load) { return composed(ctx_, p, load); });
    });
    update_reads(uses_, f_, r);
  }

  void merge_neighbours() {
    std::vector<nest::Statement> body;
    for (size_t s = 0; s < f_.body.size(); ++s) {
      PlainMap p;
      const bool mergeable = is_alone(s) && is_number(f_.body[s], p) && is_cheap(p.write->value);
      if (mergeable && is_open_ && f_.body[s].part == body.back().part && !reads_any(f_.body[s], written(body.back()))) {
        nest::Write w = *p.write;
        for (const ir::Dim* d : p.nest->dims) w.value = ctx_.substitute(w.value, {{ctx_.dim(d), ctx_.integer(0)}});
        for (const Expr*& e : w.index) e = ctx_.integer(0);
        body.back().nest->writes.push_back(std::move(w));
        continue;
      }
      body.push_back(std::move(f_.body[s]));
      is_open_ = mergeable && body.back().nest->dims.empty();
    }
    f_.body = std::move(body);
  }
  static bool reads_any(const nest::Statement& s, const std::vector<uint32_t>& arrays) {
    const auto inputs = read(s);
    return std::any_of(arrays.begin(), arrays.end(), [&](uint32_t a) { return std::binary_search(inputs.begin(), inputs.end(), a); });
  }

  ir::Context& ctx_;
  nest::Function& f_;
  Uses uses_;
  const bool with_folds_;
  bool is_open_ = false;  // the last statement of the new body is one number or several
};

}  // namespace

Status prologues(ir::Context& ctx, nest::Function& f, bool with_folds) {
  Prologues(ctx, f, with_folds).run();
  return ok();
}

}  // namespace mlc::passes
