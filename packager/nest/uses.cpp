#include "packager/nest/uses.h"

namespace mlc::nest {
namespace {

void add_loads(const ir::Expr* e, std::set<uint32_t>& arrays) {
  if (!e) return;
  ir::walk(e, [&](const ir::Expr* node) {
    if (node->op == ir::Op::Load && node->array < kFirstLocal) arrays.insert(node->array);
  });
}

const ir::Expr* renumbered(ir::Context& ctx, const ir::Expr* e, const std::function<uint32_t(uint32_t)>& number) {
  if (!e) return nullptr;
  // Loads nest (an index may be loaded), so arguments are rebuilt before the load itself: one rewrite per level.
  std::function<const ir::Expr*(const ir::Expr*)> replace = [&](const ir::Expr* node) -> const ir::Expr* {
    if (node->op != ir::Op::Load || node->array >= kFirstLocal) return nullptr;
    std::vector<const ir::Expr*> index;
    for (const ir::Expr* i : node->args) index.push_back(ctx.rewrite(i, replace));
    return ctx.load(number(node->array), node->type, std::move(index), node->access);
  };
  return ctx.rewrite(e, replace);
}

void renumber_block(ir::Context& ctx, std::vector<loop::StmtPtr>& block, const std::function<uint32_t(uint32_t)>& number) {
  for (loop::StmtPtr& s : block) {
    for (const ir::Expr** e : {&s->begin, &s->end, &s->cond, &s->bound, &s->value}) *e = renumbered(ctx, *e, number);
    for (const ir::Expr*& e : s->index) e = renumbered(ctx, e, number);
    if (s->kind == loop::StmtKind::Store && s->array < kFirstLocal) s->array = number(s->array);
    renumber_block(ctx, s->body, number);
    renumber_block(ctx, s->orelse, number);
  }
}

}  // namespace

std::set<uint32_t> arrays_read(const Statement& statement) {
  if (statement.control) {
    std::set<uint32_t> arrays(statement.control->inputs.begin(), statement.control->inputs.end());
    arrays.erase(kNoArray);
    return arrays;
  }
  if (statement.proc) return {statement.proc->reads.begin(), statement.proc->reads.end()};
  std::set<uint32_t> arrays;
  add_loads(statement.nest->where, arrays);
  for (const Write& write : statement.nest->writes) {
    add_loads(write.value, arrays);
    for (const ir::Expr* i : write.index) add_loads(i, arrays);
    if (write.push) arrays.insert(write.array);
  }
  return arrays;
}

std::set<uint32_t> arrays_written(const Statement& statement) {
  if (statement.control) {
    std::set<uint32_t> arrays(statement.control->outputs.begin(), statement.control->outputs.end());
    arrays.erase(kNoArray);
    return arrays;
  }
  if (statement.proc) return {statement.proc->writes.begin(), statement.proc->writes.end()};
  std::set<uint32_t> arrays;
  for (const Write& write : statement.nest->writes) arrays.insert(write.array);
  return arrays;
}

void renumber(ir::Context& ctx, Statement& statement, const std::function<uint32_t(uint32_t)>& number) {
  if (statement.control) {
    for (std::vector<uint32_t>* list : {&statement.control->inputs, &statement.control->outputs})
      for (uint32_t& array : *list)
        if (array != kNoArray) array = number(array);
    return;
  }
  if (statement.proc) {
    for (uint32_t& array : statement.proc->reads) array = number(array);
    for (uint32_t& array : statement.proc->writes) array = number(array);
    renumber_block(ctx, statement.proc->body, number);
    return;
  }
  Nest& nest = *statement.nest;
  nest.where = renumbered(ctx, nest.where, number);
  for (Write& write : nest.writes) {
    write.array = number(write.array);
    write.value = renumbered(ctx, write.value, number);
    for (const ir::Expr*& i : write.index) i = renumbered(ctx, i, number);
  }
}

}  // namespace mlc::nest
