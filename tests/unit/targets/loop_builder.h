// Builds Loop kernels by hand, without the simplifications of ir::Context: a test wants to see the operation it wrote.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "packager/loop/loop.h"

namespace mlc::testing {

using ir::Expr;
using ir::Op;
using ir::Type;

class Pool {
 public:
  const Expr* make(Op op, Type type, std::vector<const Expr*> args = {}, int64_t i = 0) {
    return node(op, type, std::move(args), i);
  }
  const Expr* integer(int64_t v, DType t = DType::I64, uint16_t lanes = 1) { return node(Op::Const, {t, lanes}, {}, v); }
  const Expr* number(double v, DType t = DType::F32, uint16_t lanes = 1) {
    Expr* e = node(Op::Const, {t, lanes}, {}, 0);
    e->f = v;
    return e;
  }
  const Expr* var(Type t = {DType::I64, 1}) { return node(Op::Var, t, {}, next_var_++); }
  const Expr* sym(const ir::Sym* s) {
    Expr* e = node(Op::Sym, {DType::I64, 1}, {}, 0);
    e->sym = s;
    return e;
  }
  const Expr* load(uint32_t array, Type t, const Expr* index, const Expr* mask = nullptr) {
    Expr* e = node(Op::Load, t, mask ? std::vector<const Expr*>{index, mask} : std::vector<const Expr*>{index}, 0);
    e->array = array;
    return e;
  }
  const Expr* add(const Expr* a, const Expr* b) { return make(Op::Add, a->type, {a, b}); }
  const Expr* mul(const Expr* a, const Expr* b) { return make(Op::Mul, a->type, {a, b}); }
  const Expr* splat(const Expr* a, uint16_t lanes) { return make(Op::Splat, {a->type.dtype, lanes}, {a}); }
  const Expr* ramp(const Expr* a, uint16_t lanes, int64_t step = 1) {
    return make(Op::Ramp, {a->type.dtype, lanes}, {a}, step);
  }

 private:
  Expr* node(Op op, Type type, std::vector<const Expr*> args, int64_t i) {
    lists_.push_back(std::move(args));
    Expr e;
    e.op = op;
    e.type = type;
    e.i = i;
    e.args = lists_.back();
    e.id = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(e);
    return &nodes_.back();
  }
  std::deque<Expr> nodes_;
  std::deque<std::vector<const Expr*>> lists_;
  int64_t next_var_ = 1;
};

inline loop::StmtPtr statement(loop::StmtKind kind) {
  auto s = std::make_unique<loop::Stmt>();
  s->kind = kind;
  return s;
}
inline loop::StmtPtr for_(const Expr* var, const Expr* begin, const Expr* end, int64_t step,
                          std::vector<loop::StmtPtr> body, loop::ForKind kind = loop::ForKind::Serial) {
  auto s = statement(loop::StmtKind::For);
  s->var = var, s->begin = begin, s->end = end, s->step = step, s->body = std::move(body), s->for_kind = kind;
  return s;
}
inline loop::StmtPtr define(loop::StmtKind kind, const Expr* var, const Expr* value) {  // Let, Local, Assign
  auto s = statement(kind);
  s->var = var, s->value = value;
  return s;
}
inline loop::StmtPtr store_(uint32_t array, const Expr* index, const Expr* value, const Expr* mask = nullptr) {
  auto s = statement(loop::StmtKind::Store);
  s->array = array, s->index = {index}, s->value = value, s->cond = mask;
  return s;
}
inline loop::StmtPtr if_(const Expr* cond, std::vector<loop::StmtPtr> body, std::vector<loop::StmtPtr> orelse = {}) {
  auto s = statement(loop::StmtKind::If);
  s->cond = cond, s->body = std::move(body), s->orelse = std::move(orelse);
  return s;
}
inline loop::StmtPtr while_(const Expr* cond, const Expr* bound, std::vector<loop::StmtPtr> body) {
  auto s = statement(loop::StmtKind::While);
  s->cond = cond, s->bound = bound, s->body = std::move(body);
  return s;
}
inline loop::StmtPtr fault(const Expr* cond, int32_t code) {
  auto s = statement(loop::StmtKind::Fault);
  s->cond = cond, s->fault = code;
  return s;
}
template <class... S>
std::vector<loop::StmtPtr> seq(S... s) {
  std::vector<loop::StmtPtr> out;
  (out.push_back(std::move(s)), ...);
  return out;
}

// A kernel with tile variables; `params` as {dtype, written}.
inline loop::Kernel kernel(Pool& p, std::string name, std::vector<std::pair<DType, bool>> params) {
  loop::Kernel k;
  k.name = std::move(name);
  for (auto [t, written] : params) {
    loop::Param q;
    q.name = "p" + std::to_string(k.params.size());
    q.dtype = t;
    q.written = written;
    k.params.push_back(q);
  }
  k.tile_begin = p.var();
  k.tile_end = p.var();
  return k;
}
inline void add_local(Pool& p, loop::Kernel& k, DType t, int64_t count) {
  loop::LocalArray local;
  local.name = "l" + std::to_string(k.locals.size());
  local.dtype = t;
  local.count = p.integer(count);
  k.locals.push_back(local);
}

}  // namespace mlc::testing
