// Scopes, registers and statements.
#include "targets/portable/encoder.h"

#include <algorithm>

#include "base/checked.h"

namespace mlc::targets::portable {

using loop::Stmt;
using loop::StmtKind;
using mlc::portable::kind_of;

Encoder::R Encoder::fail(std::string message) {
  if (status_.ok()) status_ = Status(Code::Internal, "kernel " + kernel_->name + ": " + std::move(message));
  return kNone;
}

Encoder::R Encoder::allocate(size_t level, Kind kind, unsigned lanes) {
  auto& free = scopes_[level].free[{kind, static_cast<uint8_t>(lanes)}];
  R r;
  if (!free.empty()) {
    r = free.back();
    free.pop_back();
  } else {
    if (registers_.size() >= kNone) return fail("needs more than 65534 registers"), R{0};
    r = static_cast<R>(registers_.size());
    registers_.emplace_back();
  }
  registers_[r] = {kind, static_cast<uint8_t>(lanes), static_cast<uint16_t>(level), true, false};
  return r;
}

Encoder::R Encoder::temporary(Kind kind, unsigned lanes) {
  const R r = allocate(scopes_.size() - 1, kind, lanes);
  registers_[r].is_stable = false;
  scopes_.back().temporaries.push_back(r);
  return r;
}

void Encoder::release(size_t level, R r) {
  scopes_[level].free[{registers_[r].kind, registers_[r].lanes}].push_back(r);
}

void Encoder::end_statement() {
  Scope& s = scopes_.back();
  for (R r : s.temporaries) release(scopes_.size() - 1, r);
  s.temporaries.clear();
  s.statement.clear();
}

Encoder::Closed Encoder::close_scope() {
  end_statement();
  Scope s = std::move(scopes_.back());
  scopes_.pop_back();
  for (int64_t v : s.vars) vars_.erase(v), broadcasts_.erase(v);
  for (auto& [shape, list] : s.free) s.owned.insert(s.owned.end(), list.begin(), list.end());
  return {std::move(s.code), std::move(s.owned)};
}

void Encoder::append(const Closed& block) {
  auto& out = scopes_.back().code;
  out.insert(out.end(), block.code.begin(), block.code.end());
  for (R r : block.registers) release(scopes_.size() - 1, r);
}

void Encoder::block(const std::vector<loop::StmtPtr>& body) {
  for (const loop::StmtPtr& s : body) {
    if (!status_.ok()) return;
    if (instructions_left_-- == 0) {
      fail("unrolls to more than a million statements");
      return;
    }
    statement(*s);
    end_statement();
  }
}

void Encoder::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::For: return for_loop(s);
    case StmtKind::While: return while_loop(s);
    case StmtKind::If: return if_else(s);
    case StmtKind::Let: case StmtKind::Local: return let(s);
    case StmtKind::Assign: return assign(s);
    case StmtKind::Store: return store(s);
    case StmtKind::Barrier: case StmtKind::ClusterBarrier: case StmtKind::Peer: case StmtKind::LoadMatrices: case StmtKind::FoldLanes: case StmtKind::Mma: case StmtKind::GroupMma: case StmtKind::Matrix: fail("a barrier in a kernel for processors"); return;
    case StmtKind::Copy: case StmtKind::CloseCopies: case StmtKind::WaitCopies: fail("a copy of lanes in a kernel for processors"); return;
    case StmtKind::Tiles: fail("tiles, which this target does not have"); return;
    case StmtKind::Prefetch: return;
    case StmtKind::Fault: {
      const R cond = eval(s.cond);
      Instruction i;
      i.op = static_cast<uint8_t>(PortableOp::FaultIf);
      i.a = cond;
      i.imm = s.fault;
      put(i);
      return;
    }
  }
}

void Encoder::for_loop(const Stmt& s) {
  if (s.step <= 0) return (void)fail("a loop with a step below 1");
  if (s.for_kind == loop::ForKind::Unroll) {
    if (!s.begin->is_const() || !s.end->is_const()) return (void)fail("unrolls a loop without constant bounds");
    for (int64_t v = s.begin->i; v < s.end->i && status_.ok(); v += s.step) {
      unrolled_[s.var->i] = v;
      open_scope();
      block(s.body);
      append(close_scope());
      // What this copy left in outer scopes under expressions of the variable is wrong in the next one.
      for (Scope& scope : scopes_)
        if (!scope.known.empty()) scope.known.clear();
    }
    unrolled_.erase(s.var->i);
    return;
  }
  const R begin = eval_unchanging(s.begin), end = eval_unchanging(s.end);
  if (!status_.ok()) return;
  open_scope();
  const R var = allocate(scopes_.size() - 1, Kind::I64, 1);
  scopes_.back().owned.push_back(var);
  scopes_.back().vars.push_back(s.var->i);
  vars_[s.var->i] = var;
  block(s.body);
  const Closed body = close_scope();
  Instruction i;
  i.op = static_cast<uint8_t>(PortableOp::LoopBegin);
  i.dst = var, i.a = begin, i.b = end, i.imm = s.step;
  put(i);
  append(body);
  Instruction close;
  close.op = static_cast<uint8_t>(PortableOp::LoopEnd);
  put(close);
}

void Encoder::while_loop(const Stmt& s) {
  const R bound = eval_unchanging(s.bound);
  const R count = temporary(Kind::I64, 1);
  open_scope();
  const R cond = eval(s.cond);
  Instruction test;
  test.op = static_cast<uint8_t>(PortableOp::WhileTest);
  test.a = cond;
  put(test);
  end_statement();
  block(s.body);
  const Closed body = close_scope();
  Instruction i;
  i.op = static_cast<uint8_t>(PortableOp::WhileBegin);
  i.dst = count, i.a = bound;
  put(i);
  append(body);
  Instruction close;
  close.op = static_cast<uint8_t>(PortableOp::WhileEnd);
  put(close);
}

void Encoder::if_else(const Stmt& s) {
  const R cond = eval(s.cond);
  auto branch = [&](const std::vector<loop::StmtPtr>& body) {
    open_scope();
    block(body);
    return close_scope();
  };
  const Closed yes = branch(s.body), no = branch(s.orelse);
  Instruction i;
  i.op = static_cast<uint8_t>(PortableOp::If);
  i.a = cond;
  put(i);
  append(yes);
  if (!no.code.empty()) {
    Instruction other;
    other.op = static_cast<uint8_t>(PortableOp::Else);
    put(other);
  }
  append(no);
  Instruction end;
  end.op = static_cast<uint8_t>(PortableOp::EndIf);
  put(end);
}

// The value of `e` in a register that keeps it as long as this scope is open.
Encoder::R Encoder::hold(const Expr* e, bool own) {
  R r = eval(e);
  if (!status_.ok()) return r;
  Scope& scope = scopes_.back();
  auto mine = std::find(scope.temporaries.begin(), scope.temporaries.end(), r);
  if (mine != scope.temporaries.end()) {
    // The value of this statement lives on; nothing else refers to the register after the statement.
    scope.temporaries.erase(mine);
    scope.owned.push_back(r);
  } else if (own || registers_[r].is_local) {
    const R copy = allocate(scopes_.size() - 1, registers_[r].kind, registers_[r].lanes);
    scopes_.back().owned.push_back(copy);
    Instruction i;
    i.op = static_cast<uint8_t>(PortableOp::Move);
    i.dst = copy, i.a = r;
    put(i);
    r = copy;
  }
  if (registers_[r].level == scopes_.size() - 1) registers_[r].is_stable = true;
  return r;
}

void Encoder::let(const Stmt& s) {
  scopes_.back().vars.push_back(s.var->i);
  if (s.kind == StmtKind::Let && s.value->op == ir::Op::Splat && s.value->type.lanes > 1 &&
      s.value->args[0]->type.lanes == 1) {
    // A broadcast is kept as its one lane; most users take it as such (FmaSplat).
    broadcasts_[s.var->i] = hold(s.value->args[0], false);
    return;
  }
  const R r = hold(s.value, s.kind == StmtKind::Local);
  if (s.kind == StmtKind::Local) registers_[r].is_local = true, registers_[r].is_stable = false;
  vars_[s.var->i] = r;
}

void Encoder::assign(const Stmt& s) {
  auto var = vars_.find(s.var->i);
  if (var == vars_.end() || !registers_[var->second].is_local) return (void)fail("assigns a variable that is no local");
  const R target = var->second;
  const R r = eval(s.value);
  if (!status_.ok() || r == target) return;
  // The last instruction may write to the local itself: it reads its operands lane by lane before it writes.
  Scope& scope = scopes_.back();
  const bool is_mine = std::find(scope.temporaries.begin(), scope.temporaries.end(), r) != scope.temporaries.end();
  if (is_mine && !scope.code.empty() && scope.code.back().dst == r &&
      scope.code.back().op != static_cast<uint8_t>(PortableOp::Insert)) {
    scope.code.back().dst = target;
    return;
  }
  Instruction i;
  i.op = static_cast<uint8_t>(PortableOp::Move);
  i.dst = target, i.a = r;
  put(i);
}

Status Encoder::encode(const loop::Kernel& kernel, std::vector<std::byte>& out) {
  *this = Encoder();
  kernel_ = &kernel;
  instructions_left_ = 1'000'000;
  open_scope();
  for (auto [var, number] : {std::pair{kernel.tile_begin, 0}, {kernel.tile_end, 1}})
    if (var) vars_[var->i] = emit(PortableOp::Tile, Kind::I64, 1, kNone, kNone, kNone, number);
  const size_t num_scalars = kernel.scalars.size() + kernel.cuts.size();
  for (size_t k = 0; k < kernel.cuts.size(); ++k)
    vars_[kernel.cuts[k].chunk->i] = emit(PortableOp::Scalar, Kind::I64, 1, kNone, kNone, kNone, static_cast<int64_t>(kernel.scalars.size() + k));
  block(kernel.body);
  const std::vector<Instruction> code = close_scope().code;
  if (!status_.ok()) return std::move(status_);
  if (kernel.params.size() > 0xffff || kernel.locals.size() > 0xffff || num_scalars > 0xffff)
    return Status(Code::Internal, "kernel " + kernel.name + ": too many parameters");

  auto add = [&](uint64_t v, unsigned bytes) {
    for (unsigned k = 0; k < bytes; ++k) out.push_back(static_cast<std::byte>(v >> (8 * k)));
  };
  auto pad = [&] {
    while (out.size() % 8) add(0, 1);
  };
  add(kernel.params.size(), 2), add(kernel.locals.size(), 2), add(num_scalars, 2), add(registers_.size(), 2);
  add(code.size(), 4), add(0, 4);
  for (const loop::Param& p : kernel.params) add(p.written ? mlc::portable::kParamWritten : 0, 1);
  pad();
  for (const loop::LocalArray& local : kernel.locals) {
    if (!local.count || !local.count->is_const() || local.count->i < 0)
      return Status(Code::Internal, "local array " + local.name + " of kernel " + kernel.name + " has no constant size");
    const auto bytes = checked_mul(static_cast<uint64_t>(local.count->i), bytes_of(local.dtype));
    if (!bytes || *bytes > mlc::portable::kMaxLocalBytes)
      return Status(Code::Internal, "local array " + local.name + " of kernel " + kernel.name + " is too large");
    add(*bytes, 8);
  }
  for (const Register& r : registers_) add(static_cast<uint8_t>(r.kind), 1), add(r.lanes, 1);
  pad();
  for (const Instruction& i : code) {
    add(i.op, 1), add(i.type, 1), add(i.dst, 2), add(i.a, 2), add(i.b, 2), add(i.c, 2), add(i.array, 2), add(i.zero, 4);
    add(static_cast<uint64_t>(i.imm), 8);
  }
  return ok();
}

}  // namespace mlc::targets::portable
