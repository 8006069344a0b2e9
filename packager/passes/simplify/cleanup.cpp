// Dead statements, equal statements, arrays that only rename another one, and divisions that are none where there is a point.
#include <algorithm>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/facts/key.h"
#include "packager/nest/facts/positive.h"
#include "packager/nest/proc.h"
#include "packager/passes/all.h"
#include "packager/passes/simplify/split.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

// Reads of `from` become reads of `to`, whose elements are the same.
void redirect(ir::Context& ctx, nest::Function& f, Uses& uses, uint32_t from, uint32_t to) {
  for (size_t reader : std::set<size_t>(uses.readers[from])) {
    nest::Statement& s = f.body[reader];
    map_roots(s, [&](const Expr* root) {
      return replace_loads(ctx, root, from, [&](const Expr* e) { return ctx.load(to, e->type, {e->args.begin(), e->args.end()}, e->access); });
    });
    if (s.proc) std::replace(s.proc->reads.begin(), s.proc->reads.end(), from, to);
    update_reads(uses, f, reader);
  }
}

// Equal for statements of equal results; empty if it is not to be merged.
std::string key_of(const nest::Nest& n) {
  if (n.scan_dim || std::any_of(n.writes.begin(), n.writes.end(), [](const nest::Write& w) { return w.push; })) return {};
  return nest::key_of(n, [](ir::StructureKey& key, uint32_t array) { key.number(array); });
}

bool merge_equal(ir::Context& ctx, nest::Function& f) {
  bool changed = false;
  Uses uses = uses_of(f);
  std::unordered_map<std::string, size_t> first;
  for (size_t i = 0; i < f.body.size(); ++i) {
    const nest::Statement& s = f.body[i];
    if (!s.nest) continue;
    std::string key = key_of(*s.nest);
    if (key.empty()) continue;
    auto [it, fresh] = first.try_emplace(std::move(key), i);
    if (fresh) continue;
    const nest::Statement& other = f.body[it->second];
    bool whole = true;
    for (size_t w = 0; w < s.nest->writes.size(); ++w) {
      uint32_t a = s.nest->writes[w].array, b = other.nest->writes[w].array;
      whole = whole && a != b && !uses.output[a] && uses.writers[a].size() == 1 && uses.writers[b].size() == 1 &&
              f.arrays[a].shape == f.arrays[b].shape;
    }
    if (!whole) continue;
    for (size_t w = 0; w < s.nest->writes.size(); ++w)
      redirect(ctx, f, uses, s.nest->writes[w].array, other.nest->writes[w].array);
    changed = true;
  }
  return changed;
}

// A plain map of a single load without loads in its index, or of a constant: reading it is reading what it names.
struct Renaming {
  PlainMap map;
  const Expr* value = nullptr;
  bool exact = false;  // axes are only reordered, dropped or added: a check of the index means the same
};
bool renaming(const nest::Function& f, const nest::Statement& s, Renaming& r) {
  if (!plain_map(s, r.map)) return false;
  r.value = r.map.write->value;
  if (r.value->is_const()) {
    r.exact = true;
    return true;
  }
  if (r.value->op != Op::Load || r.value->access == ir::Access::Checked) return false;
  const nest::Array& source = f.arrays[r.value->array];
  r.exact = true;
  for (size_t k = 0; k < r.value->args.size(); ++k) {
    const Expr* e = r.value->args[k];
    bool loads = false;
    ir::walk(e, [&](const Expr* x) { loads |= x->op == Op::Load || x->op == Op::Fold; });
    if (loads) return false;
    r.exact = r.exact && (e->is_int(0) || (e->op == Op::Dim && e->dim->extent == source.shape[k]));
  }
  return true;
}

// Whether what is read in place of `load` is out of range where that is: an axis that the copy drops or spreads is checked nowhere else.
bool checks_stay(const nest::Function& f, const Renaming& r, const Expr* load) {
  for (size_t k = 0; k < load->args.size(); ++k) {
    const ir::Dim* dim = r.map.axis_dim[k];
    const Expr *at = load->args[k], *extent = f.arrays[load->array].shape[k];
    const bool is_kept = dim && std::any_of(r.value->args.begin(), r.value->args.end(), [&](const Expr* e) { return e->op == Op::Dim && e->dim == dim; });
    const bool in_range = at->op == Op::Dim ? at->dim->extent == extent : at->is_const() && extent->is_const() && at->i >= 0 && at->i < extent->i;
    if (!is_kept && !in_range) return false;
  }
  return true;
}

// Whether divisions to find `element`, which stands for `load`, are of dims alone that both operands of a product have: these run around its loops. Heads that share
// their keys, which a model repeats for each of them.
bool divides_around(ir::Context& ctx, const nest::Nest& n, const Expr* root, const Expr* load, const Expr* element) {
  bool around = true;
  ir::walk(root, [&](const Expr* fold) {
    if (fold->op != Op::Fold || std::none_of(fold->args.begin(), fold->args.end(), [&](const Expr* body) { return ir::depends_on(body, load); })) return;
    const auto c = nest::contraction_of(ctx, n.dims, fold);
    around = around && c && (c->a.load == load || c->b.load == load);
    const auto is_inside = [&](const Expr* e) { return e->op == Op::Dim && std::find(c->batch.begin(), c->batch.end(), e->dim) == c->batch.end(); };
    for (const Expr* index : element->args)
      ir::walk(index, [&](const Expr* division) {
        if (around && is_nonlinear(division)) ir::walk(division, [&](const Expr* e) { around = around && !is_inside(e); });
      });
  });
  return around;
}

bool read_through(ir::Context& ctx, nest::Function& f) {
  bool changed = false;
  Uses uses = uses_of(f);
  for (size_t i = 0; i < f.body.size(); ++i) {
    Renaming r;
    if (!renaming(f, f.body[i], r)) continue;
    uint32_t y = r.map.write->array;
    if (uses.output[y] || uses.writers[y].size() != 1 || uses.readers[y].empty()) continue;
    auto composed = [&](const Expr* load) {
      std::unordered_map<const Expr*, const Expr*> at;
      for (size_t k = 0; k < load->args.size(); ++k)
        if (r.map.axis_dim[k]) at.emplace(ctx.dim(r.map.axis_dim[k]), load->args[k]);
      const Expr* e = ctx.substitute(r.value, at);
      return load->access == ir::Access::Checked && e->op == Op::Load ? ctx.load(e->array, e->type, {e->args.begin(), e->args.end()}, load->access) : e;
    };
    bool possible = true;
    for (size_t reader : uses.readers[y]) {
      const nest::Statement& s = f.body[reader];
      if (s.proc) { possible = false; break; }
      // Which loads stand in a fold, or read elements again and again (frames that overlap): there an index with divisions is worse than the copy.
      double points = estimate(s.nest->dims), elements = 1;
      for (const Expr* extent : f.arrays[y].shape) elements *= estimate(extent);
      const bool again = points > 1.5*elements;
      for_roots(s, [&](const Expr* root) {
        std::vector<const Expr*> inside;
        ir::walk(root, [&](const Expr* e) {
          if (e->op == Op::Fold) for (const Expr* b : e->args) inside.push_back(b);
        });
        auto in_fold = [&](const Expr* load) {
          return std::any_of(inside.begin(), inside.end(), [&](const Expr* b) { return ir::depends_on(b, load); });
        };
        ir::walk(root, [&](const Expr* e) {
          if (!possible || e->op != Op::Load || e->array != y) return;
          if (e->access == ir::Access::Checked && !(r.exact && checks_stay(f, r, e))) { possible = false; return; }
          if (r.value->is_const()) { possible = e->access != ir::Access::Checked; return; }
          const Expr* c = composed(e);
          if (c->op != Op::Load) { possible = false; return; }
          const size_t before = nonlinear_operations(e), after = nonlinear_operations(c);
          if (after > before && (uses.readers[y].size() > 1 || again || in_fold(e))) possible = in_fold(e) && divides_around(ctx, *s.nest, root, e, c);
        });
      });
      if (!possible) break;
    }
    if (!possible) continue;
    for (size_t reader : std::set<size_t>(uses.readers[y])) {
      map_roots(f.body[reader], [&](const Expr* root) { return replace_loads(ctx, root, y, composed); });
      update_reads(uses, f, reader);
    }
    changed = true;
  }
  return changed;
}

// A temporary whose only reader copies it to an output is written to the output directly, by however many
// statements (a concatenation).
void write_to_outputs(nest::Function& f) {
  Uses uses = uses_of(f);
  std::vector<size_t> gone;
  for (size_t i = 0; i < f.body.size(); ++i) {
    PlainMap copy;
    if (!plain_map(f.body[i], copy) || copy.write->value->op != Op::Load || copy.write->value->access == ir::Access::Checked) continue;
    const uint32_t y = copy.write->array, x = copy.write->value->array;
    if (!uses.output[y] || uses.writers[y].size() != 1 || uses.output[x] || uses.readers[x].size() != 1 || f.arrays[x].kind != nest::Array::Kind::Temp) continue;
    if (f.arrays[x].shape != f.arrays[y].shape || f.arrays[x].dtype != f.arrays[y].dtype || !std::equal(copy.write->index.begin(), copy.write->index.end(), copy.write->value->args.begin(), copy.write->value->args.end())) continue;
    const auto is_nest = [&](size_t writer) { return writer < i && f.body[writer].nest && !f.body[writer].nest->scan_dim; };
    if (uses.writers[x].empty() || !std::all_of(uses.writers[x].begin(), uses.writers[x].end(), is_nest)) continue;
    for (size_t writer : uses.writers[x])
      for (nest::Write& w : f.body[writer].nest->writes)
        if (w.array == x) w.array = y;
    gone.push_back(i);
  }
  for (size_t k = gone.size(); k-- > 0;) f.body.erase(f.body.begin() + static_cast<ptrdiff_t>(gone[k]));
}

// A map dim of one element is no dim.
void drop_unit_dims(ir::Context& ctx, nest::Function& f) {
  for (nest::Statement& s : f.body) {
    if (!s.nest) continue;
    std::unordered_map<const Expr*, const Expr*> zero;
    for (const ir::Dim* d : s.nest->dims)
      if (d->extent->is_int(1) && d != s.nest->scan_dim) zero.emplace(ctx.dim(d), ctx.integer(0));
    if (zero.empty()) continue;
    map_roots(s, [&](const Expr* e) { return ctx.substitute(e, zero); });
    std::erase_if(s.nest->dims, [&](const ir::Dim* d) { return zero.contains(ctx.dim(d)); });
    if (s.nest->where && s.nest->where->is_int(1)) s.nest->where = nullptr;
  }
}

}  // namespace

void remove_dead(nest::Function& f) {
  std::vector<bool> live(f.arrays.size(), false);
  for (uint32_t o : f.outputs) live[o] = true;
  std::vector<nest::Statement> kept;
  for (size_t i = f.body.size(); i-- > 0;) {
    nest::Statement& s = f.body[i];
    auto results = written(s);
    bool needed = std::any_of(results.begin(), results.end(), [&](uint32_t a) { return live[a]; });
    if (!needed) continue;
    if (s.nest && !s.nest->scan_dim) std::erase_if(s.nest->writes, [&](const nest::Write& w) { return !live[w.array]; });
    for (uint32_t a : read(s)) live[a] = true;
    // A push combines with what is there, and several statements may write parts of an array: all of them stay.
    kept.push_back(std::move(s));
  }
  std::reverse(kept.begin(), kept.end());
  f.body = std::move(kept);
}

Status cleanup(ir::Context& ctx, nest::Function& f) {
  remove_dead(f);
  drop_unit_dims(ctx, f);
  for (int round = 0; round < 8; ++round) {
    bool changed = read_through(ctx, f);
    changed |= merge_equal(ctx, f);
    remove_dead(f);
    if (!changed) break;
  }
  write_to_outputs(f);
  for (nest::Statement& s : f.body) {
    if (!s.nest || !divides_by_extents(s)) continue;
    const nest::Positive positive(ctx, *s.nest);
    map_roots(s, [&](const Expr* e) { return positive.back(positive.there(e)); });
  }
  return ok();
}

}  // namespace mlc::passes
