// Kernels of devices by hand: control flow, memory of a block and of a lane, faults, arguments of every kind.
#pragma once

#include "schema/module_abi.h"
#include "tests/unit/spirv/device_case.h"

namespace mlc::testing {

struct StatementCase {
  loop::Kernel kernel;
  std::vector<int64_t> scalars;
  uint32_t tiles = 3;
  uint32_t fault = 0;       // that it ends with
  bool order_matters = false;  // lanes read what others wrote: the serial reference does not know
};

// The arguments of every case: 0 in f32, 1 in i32, 2 in u8, 3 out f32, 4 out i64; kBlock * tiles elements and a block more.
inline loop::Kernel device_kernel(Pool& p, std::string name) {
  loop::Kernel k = kernel(p, std::move(name), {{DType::F32, false}, {DType::I32, false}, {DType::U8, false}, {DType::F32, true}, {DType::I64, true}});
  k.lanes = kBlock;
  return k;
}

// The body for one lane: `make(tile, lane, at)` with the element number of the lane.
template <class Make>
loop::Kernel lanes_kernel(Pool& p, std::string name, Make make) {
  loop::Kernel k = device_kernel(p, std::move(name));
  const Expr *tile = p.var(), *lane = p.var();
  const Expr* at = p.add(p.mul(tile, p.integer(kBlock)), lane);
  k.body.push_back(for_(tile, k.tile_begin, k.tile_end, 1,
                        seq(for_(lane, p.integer(0), p.integer(kBlock), 1, make(k, tile, lane, at), loop::ForKind::Lanes))));
  return k;
}

inline const Expr* less(Pool& p, const Expr* a, const Expr* b) { return p.make(Op::Lt, {DType::Bool, a->type.lanes}, {a, b}); }

// A sum over a loop whose length depends on the lane, in it an if with both arms.
inline StatementCase loop_case(Pool& p) {
  StatementCase c;
  c.kernel = lanes_kernel(p, "loops", [&](loop::Kernel&, const Expr*, const Expr* lane, const Expr* at) {
    const Expr *sum = p.var({DType::F32, 1}), *i = p.var(), *x = p.load(0, {DType::F32, 1}, p.add(at, i));
    auto arms = if_(less(p, i, p.integer(3)), seq(define(loop::StmtKind::Assign, sum, p.add(sum, x))),
                    seq(define(loop::StmtKind::Assign, sum, p.make(Op::Sub, {DType::F32, 1}, {sum, x}))));
    return seq(define(loop::StmtKind::Local, sum, p.number(1)), for_(i, p.integer(0), lane, 2, seq(std::move(arms))), store_(3, at, sum));
  });
  return c;
}

inline StatementCase unroll_case(Pool& p) {
  StatementCase c;
  c.kernel = lanes_kernel(p, "unroll", [&](loop::Kernel& k, const Expr*, const Expr*, const Expr* at) {
    add_local(p, k, DType::F32, 4);
    add_local(p, k, DType::I16, 4);
    for (auto& l : k.locals) l.space = loop::Space::Private;
    const Expr *i = p.var(), *j = p.var(), *s = p.var({DType::F32, 1});
    const Expr* twice = p.make(Op::Cast, {DType::I16, 1}, {p.mul(i, p.integer(20000))});
    auto fill = for_(i, p.integer(0), p.integer(4), 1, seq(store_(5, i, p.load(0, {DType::F32, 1}, p.add(at, i))), store_(6, i, twice)), loop::ForKind::Unroll);
    const Expr* term = p.make(Op::Fma, {DType::F32, 1}, {p.load(5, {DType::F32, 1}, j), p.make(Op::Cast, {DType::F32, 1}, {p.load(6, {DType::I16, 1}, j)}), s});
    return seq(std::move(fill), define(loop::StmtKind::Local, s, p.number(0)),
               for_(j, p.integer(0), p.integer(4), 1, seq(define(loop::StmtKind::Assign, s, term)), loop::ForKind::Unroll), store_(3, at, s));
  });
  return c;
}

// Counts a value down while it is positive; `bound` turns at most.
inline StatementCase while_case(Pool& p, int64_t bound) {
  StatementCase c;
  c.kernel = lanes_kernel(p, "while" + std::to_string(bound), [&](loop::Kernel&, const Expr*, const Expr* lane, const Expr* at) {
    const Expr *n = p.var(), *turns = p.var();
    auto body = seq(define(loop::StmtKind::Assign, n, p.add(n, p.integer(-2))), define(loop::StmtKind::Assign, turns, p.add(turns, p.integer(1))));
    return seq(define(loop::StmtKind::Local, n, lane), define(loop::StmtKind::Local, turns, p.integer(0)),
               while_(less(p, p.integer(0), n), p.integer(bound), std::move(body)), store_(4, at, turns));
  });
  c.fault = bound < 4 ? MLRUN_FAULT_BOUND : 0;
  return c;
}

inline StatementCase fault_case(Pool& p) {
  StatementCase c;
  c.kernel = lanes_kernel(p, "fault", [&](loop::Kernel&, const Expr*, const Expr*, const Expr* at) {
    return seq(store_(4, at, at), fault(less(p, p.integer(17), at), MLRUN_FAULT_INDEX), store_(3, at, p.number(2)));
  });
  c.fault = MLRUN_FAULT_INDEX;
  return c;
}

inline StatementCase masks_case(Pool& p) {
  StatementCase c;
  c.kernel = lanes_kernel(p, "masks", [&](loop::Kernel&, const Expr*, const Expr* lane, const Expr* at) {
    const Expr *odd = p.make(Op::Eq, {DType::Bool, 1}, {p.make(Op::FloorMod, {DType::I64, 1}, {lane, p.integer(2)}), p.integer(1)});
    const Expr* far = p.mul(p.add(at, p.integer(-1)), p.integer(1000000007));  // out of range unless masked off
    const Expr* zero = p.load(0, {DType::F32, 1}, far, p.make(Op::And, {DType::Bool, 1}, {odd, p.make(Op::Not, {DType::Bool, 1}, {odd})}));
    const Expr* x = p.load(2, {DType::U8, 1}, at, odd);
    return seq(store_(3, at, p.add(zero, p.make(Op::Cast, {DType::F32, 1}, {x}))), store_(4, at, p.integer(5), odd), store_(4, far, p.integer(6), less(p, at, p.integer(-1))));
  });
  return c;
}

// More scalars than push constants hold.
inline StatementCase scalars_case(Pool& p, size_t count, std::deque<ir::Sym>& syms) {
  StatementCase c;
  for (size_t k = 0; k < count; ++k) {
    syms.push_back({});
    syms.back().name = "s" + std::to_string(k);
    c.scalars.push_back(int64_t(k * k) - 40 + (int64_t(k) << 33));
  }
  const auto first = syms.end() - static_cast<ptrdiff_t>(count);
  c.kernel = lanes_kernel(p, "scalars" + std::to_string(count), [&](loop::Kernel& k, const Expr*, const Expr* lane, const Expr* at) {
    const Expr* sum = at;
    for (auto s = first; s != syms.end(); ++s) {
      k.scalars.push_back(&*s);
      sum = p.add(p.mul(sum, p.integer(3)), p.sym(&*s));
    }
    return seq(store_(4, at, p.add(sum, lane)));
  });
  return c;
}

// Lanes turn a block round: what one stores in shared memory another reads behind the barrier.
inline StatementCase shared_case(Pool& p, DType t, bool barrier = true) {
  StatementCase c;
  c.kernel = lanes_kernel(p, std::string("shared.") + std::string(name_of(t)) + (barrier ? "" : ".race"), [&](loop::Kernel& k, const Expr*, const Expr* lane, const Expr* at) {
    add_local(p, k, DType::F32, 3);
    add_local(p, k, t, kBlock);
    for (auto& l : k.locals) l.space = loop::Space::Shared;
    const Expr* mirrored = p.add(p.integer(kBlock - 1), p.mul(lane, p.integer(-1)));
    const Expr* v = p.make(Op::Cast, {t, 1}, {p.load(1, {DType::I32, 1}, at)});
    auto body = seq(store_(6, lane, v));
    if (barrier) body.push_back(statement(loop::StmtKind::Barrier));
    body.push_back(store_(4, at, p.make(Op::Cast, {DType::I64, 1}, {p.load(6, {t, 1}, mirrored)})));
    return body;
  });
  c.order_matters = true;
  return c;
}

inline std::vector<StatementCase> statement_cases(Pool& p) {
  static std::deque<ir::Sym> syms;
  std::vector<StatementCase> all;
  all.push_back(loop_case(p));
  all.push_back(unroll_case(p));
  for (const int64_t bound : {10, 4, 3, 0}) all.push_back(while_case(p, bound));
  all.push_back(fault_case(p));
  all.push_back(masks_case(p));
  for (const size_t n : {1, 14, 15, 40}) all.push_back(scalars_case(p, n, syms));
  for (const DType t : {DType::I32, DType::I64, DType::U8, DType::Bool, DType::F64}) all.push_back(shared_case(p, t));
  return all;
}

}  // namespace mlc::testing
