#include "packager/nest/facts/uses.h"

#include <algorithm>
#include <unordered_set>

#include "packager/nest/proc.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Op;

void block_roots(const std::vector<loop::StmtPtr>& body, const std::function<void(const Expr*&)>& visit) {
  for (const loop::StmtPtr& s : body) {
    for (const Expr** e : {&s->begin, &s->end, &s->cond, &s->bound, &s->value})
      if (*e) visit(*e);
    for (const Expr*& e : s->index) visit(e);
    block_roots(s->body, visit);
    block_roots(s->orelse, visit);
  }
}

void roots(Statement& s, const std::function<void(const Expr*&)>& visit) {
  if (s.nest) {
    if (s.nest->where) visit(s.nest->where);
    for (Write& w : s.nest->writes) {
      for (const Expr*& e : w.index) visit(e);
      visit(w.value);
    }
  } else if (s.proc) {
    for (loop::LocalArray& l : s.proc->locals)
      for (const Expr*& e : l.shape) visit(e);
    block_roots(s.proc->body, visit);
  }
}

const Expr* renumbered(ir::Context& ctx, const Expr* e, const std::function<uint32_t(uint32_t)>& number) {
  // Loads nest (an index may be loaded), so arguments are rebuilt before the load itself: one rewrite per level.
  std::function<const Expr*(const Expr*)> replace = [&](const Expr* node) -> const Expr* {
    if (node->op != Op::Load || node->array >= kFirstLocal) return nullptr;
    std::vector<const Expr*> index;
    for (const Expr* i : node->args) index.push_back(ctx.rewrite(i, replace));
    return ctx.load(number(node->array), node->type, std::move(index), node->access);
  };
  return ctx.rewrite(e, replace);
}

void renumber_stores(std::vector<loop::StmtPtr>& block, const std::function<uint32_t(uint32_t)>& number) {
  for (loop::StmtPtr& s : block) {
    if (s->kind == loop::StmtKind::Store && s->array < kFirstLocal) s->array = number(s->array);
    renumber_stores(s->body, number);
    renumber_stores(s->orelse, number);
  }
}

std::vector<uint32_t> distinct(std::vector<uint32_t> arrays) {
  std::sort(arrays.begin(), arrays.end());
  arrays.erase(std::unique(arrays.begin(), arrays.end()), arrays.end());
  if (!arrays.empty() && arrays.back() == kNoArray) arrays.pop_back();
  return arrays;
}

void add_shape(const Array& array, SymbolSet& symbols) {
  for (const Expr* extent : array.shape) add_symbols(extent, symbols);
}

// Symbols that are set when a function is called and by its controls.
SymbolSet symbols_set(const Function& f) {
  SymbolSet set;
  const auto axes = [&](const std::vector<uint32_t>& arrays) {
    for (uint32_t a : arrays)
      if (a != kNoArray)
        for (const Expr* extent : f.arrays[a].shape)
          if (extent->op == Op::Sym) set.insert(extent->sym);
  };
  axes(f.inputs);
  for (const Function::Definition& d : f.definitions) set.insert(d.sym);
  for (const Function::Element& e : f.elements) set.insert(e.sym);
  for (const Statement& s : f.body)
    if (s.control) {
      set.insert(s.control->symbols.begin(), s.control->symbols.end());
      axes(s.control->outputs);
    }
  return set;
}

}  // namespace

void for_roots(const Statement& s, const std::function<void(const Expr*)>& visit) {
  roots(const_cast<Statement&>(s), [&](const Expr*& e) { visit(e); });
}

void map_roots(Statement& s, const std::function<const Expr*(const Expr*)>& change) {
  roots(s, [&](const Expr*& e) { e = change(e); });
}

void for_loads(const Statement& s, const std::function<void(const Expr*)>& visit) {
  std::unordered_set<const Expr*> seen;
  for_roots(s, [&](const Expr* root) {
    ir::walk_past_extents(root, [&](const Expr* e) {
      if (e->op == Op::Load && seen.insert(e).second) visit(e);
    });
  });
}

std::vector<uint32_t> written(const Statement& s) {
  if (s.control) return distinct(s.control->outputs);
  if (s.proc) return distinct(s.proc->writes);
  std::vector<uint32_t> out;
  for (const Write& w : s.nest->writes) out.push_back(w.array);
  return distinct(std::move(out));
}

std::vector<uint32_t> read(const Statement& s) {
  if (s.control) return distinct(s.control->inputs);
  std::vector<uint32_t> out;
  if (s.proc) out = s.proc->reads;
  for_loads(s, [&](const Expr* e) {
    if (e->array < kFirstLocal) out.push_back(e->array);
  });
  return distinct(std::move(out));
}

bool is_in_place(ir::Context& ctx, const Function& f, const Statement& s) {
  if (!s.nest || s.nest->writes.size() != 1 || s.nest->writes[0].push) return false;
  const Write& write = s.nest->writes[0];
  if (write.value->op != ir::Op::Load) return false;
  const Array &part = f.arrays[write.value->array], &to = f.arrays[write.array];
  if (!part.layout.is_part() || part.whole != (to.layout.is_part() ? to.whole : write.array)) return false;
  for (size_t k = 0; k < write.index.size(); ++k) {
    const ir::Expr* place = to.layout.is_part() ? ctx.add(write.index[k], to.layout.at[k]) : write.index[k];
    if (!ctx.sub(place, ctx.add(write.value->args[k], part.layout.at[k]))->is_int(0)) return false;
  }
  return true;
}

void renumber(ir::Context& ctx, Statement& s, const std::function<uint32_t(uint32_t)>& number) {
  const auto all = [&](std::vector<uint32_t>& arrays) {
    for (uint32_t& array : arrays)
      if (array != kNoArray) array = number(array);
  };
  map_roots(s, [&](const Expr* e) { return renumbered(ctx, e, number); });
  if (s.control) {
    all(s.control->inputs);
    all(s.control->outputs);
  } else if (s.proc) {
    all(s.proc->reads);
    all(s.proc->writes);
    renumber_stores(s.proc->body, number);
  } else {
    for (Write& w : s.nest->writes) w.array = number(w.array);
  }
}

void add_symbols(const Expr* root, SymbolSet& symbols) {
  std::vector<const Expr*> todo{root};
  std::unordered_set<const ir::Dim*> dims;
  const auto add_dim = [&](const ir::Dim* dim) {
    if (dims.insert(dim).second) todo.push_back(dim->extent);
  };
  while (!todo.empty()) {
    const Expr* next = todo.back();
    todo.pop_back();
    ir::walk(next, [&](const Expr* e) {
      if (e->op == Op::Sym) symbols.insert(e->sym);
      if (e->op == Op::Dim) add_dim(e->dim);
      if (e->op == Op::Fold)
        for (const ir::Dim* dim : e->fold->dims) add_dim(dim);
    });
  }
}

void add_symbols(const Function& f, const Statement& s, SymbolSet& symbols) {
  if (s.control) {
    for (const auto& body : s.control->bodies) symbols.merge(foreign_symbols(*body));
    return;
  }
  for (const ir::Dim* dim : s.nest ? s.nest->dims : s.proc->dims) add_symbols(dim->extent, symbols);
  for_roots(s, [&](const Expr* e) { add_symbols(e, symbols); });
  for (uint32_t a : read(s)) add_shape(f.arrays[a], symbols);
  for (uint32_t a : written(s)) add_shape(f.arrays[a], symbols);
}

SymbolSet foreign_symbols(const Function& f) {
  SymbolSet used, foreign;
  for (const Array& array : f.arrays) add_shape(array, used);
  for (const Statement& s : f.body) add_symbols(f, s, used);
  for (const Function::Check& c : f.checks) add_symbols(c.condition, used);
  for (const Function::Definition& d : f.definitions) add_symbols(d.value, used);
  const SymbolSet set = symbols_set(f);
  std::set_difference(used.begin(), used.end(), set.begin(), set.end(), std::inserter(foreign, foreign.end()), SymbolOrder());
  return foreign;
}

}  // namespace mlc::nest
