#include "packager/nest/copy.h"

#include <cassert>

#include "packager/nest/proc.h"

namespace mlc::nest {
namespace {

// Recursion: the depth of loops in a text of the operator library.
std::vector<loop::StmtPtr> copy_of(const std::vector<loop::StmtPtr>& block) {
  std::vector<loop::StmtPtr> out;
  for (const loop::StmtPtr& s : block) {
    auto& made = *out.emplace_back(std::make_unique<loop::Stmt>());
    made.kind = s->kind;
    made.for_kind = s->for_kind;
    made.var = s->var;
    made.begin = s->begin;
    made.end = s->end;
    made.step = s->step;
    made.cond = s->cond;
    made.bound = s->bound;
    made.value = s->value;
    made.array = s->array;
    made.index = s->index;
    made.fault = s->fault;
    made.body = copy_of(s->body);
    made.orelse = copy_of(s->orelse);
  }
  return out;
}

Statement copy_of(const Statement& s) {
  assert(!s.control && "a control has functions of its own");
  Statement out;
  out.source = s.source;
  out.part = s.part;
  out.joins = s.joins;
  if (s.nest) out.nest = std::make_unique<Nest>(*s.nest);
  if (!s.proc) return out;
  out.proc = std::make_unique<Proc>();
  out.proc->dims = s.proc->dims;
  out.proc->body = copy_of(s.proc->body);
  out.proc->locals = s.proc->locals;
  out.proc->reads = s.proc->reads;
  out.proc->writes = s.proc->writes;
  return out;
}

}  // namespace

Function copy_of(const Function& f) {
  Function out;
  out.name = f.name;
  out.arrays = f.arrays;
  for (const Statement& s : f.body) out.body.push_back(copy_of(s));
  out.inputs = f.inputs;
  out.outputs = f.outputs;
  out.checks = f.checks;
  out.definitions = f.definitions;
  out.elements = f.elements;
  out.states = f.states;
  return out;
}

}  // namespace mlc::nest
