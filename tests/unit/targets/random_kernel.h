// Random kernels that pass loop::verify's rules and have one meaning: indices stay in their arrays, divisors are not
// zero, no float-to-integer conversion leaves its range, no sign of zero or payload of NaN becomes visible.
#pragma once

#include <doctest/doctest.h>

#include <random>

#include "targets/target.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc::testing {

class RandomKernel {
 public:
  static constexpr int64_t kLength = 256;  // elements of each buffer

  RandomKernel(Pool& pool, uint64_t seed) : p_(pool), random_(seed) {
    k_ = kernel(p_, "random" + std::to_string(seed), {{DType::F32, false}, {DType::I32, false}, {DType::U8, false},
                                                      {DType::F16, false}, {DType::F32, true}, {DType::I64, true}});
    add_local(p_, k_, DType::F32, kLength);
    sym_.name = "n";
    k_.scalars = {&sym_};
    const Expr* tile = p_.var();
    ints_ = {p_.sym(&sym_), tile};
    std::vector<loop::StmtPtr> body;
    // Locals have defined contents from the start.
    const Expr* i = p_.var();
    body.push_back(for_(i, p_.integer(0), p_.integer(kLength), 16,
                        seq(store_(6, i, p_.splat(p_.number(0.5), 16)))));
    for (auto& s : block(3)) body.push_back(std::move(s));
    k_.body.push_back(for_(tile, k_.tile_begin, k_.tile_end, 1, std::move(body)));
  }
  RandomKernel(const RandomKernel&) = delete;

  const loop::Kernel& kernel_() const { return k_; }
  loop::Kernel take() { return std::move(k_); }
  void put_back(loop::Kernel k) { k_ = std::move(k); }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }
  uint16_t lanes() { return uint16_t(1) << pick(5); }

  std::vector<loop::StmtPtr> block(int depth) {
    const size_t ints = ints_.size(), locals = locals_.size();
    std::vector<loop::StmtPtr> out;
    for (uint64_t n = 2 + pick(3); n; --n) statement(depth, out);
    ints_.resize(ints);
    locals_.resize(locals);
    return out;
  }

  void statement(int depth, std::vector<loop::StmtPtr>& out) {
    const uint64_t kind = pick(depth > 0 ? 9 : 6);
    if (kind < 2) {
      const uint16_t n = lanes();
      const bool wide = pick(4) == 0;
      const uint32_t array = pick(2) ? 4 : 6;
      const Expr* mask = pick(3) == 0 ? boolean(n, 2) : nullptr;
      if (wide) out.push_back(store_(5, index(n), value({DType::I64, n}, 3), mask));
      else out.push_back(store_(array, pick(5) == 0 && n > 1 ? scatter(n) : index(n), value({DType::F32, n}, 3), mask));
    } else if (kind == 2) {
      const Expr* v = p_.var();
      out.push_back(define(loop::StmtKind::Let, v, value({DType::I64, 1}, 2)));
      ints_.push_back(v);
    } else if (kind == 3) {
      const Type t = {pick(2) ? DType::F32 : DType::I32, lanes()};
      const Expr* v = p_.var(t);
      out.push_back(define(loop::StmtKind::Local, v, value(t, 2)));
      locals_.push_back(v);
    } else if (kind < 6) {
      if (locals_.empty()) return statement(depth, out);
      const Expr* v = locals_[pick(locals_.size())];
      out.push_back(define(loop::StmtKind::Assign, v, value(v->type, 3)));
    } else if (kind == 6) {
      const Expr* v = p_.var();
      const bool dynamic = pick(2);
      const Expr* end = dynamic ? p_.make(Op::FloorMod, {DType::I64, 1}, {value({DType::I64, 1}, 1), p_.integer(7)})
                                : p_.integer(int64_t(pick(5)));
      const auto how = !dynamic && pick(3) == 0 ? loop::ForKind::Unroll : loop::ForKind::Serial;
      ints_.push_back(v);
      auto body = block(depth - 1);
      ints_.pop_back();
      out.push_back(for_(v, p_.integer(int64_t(pick(2))), end, int64_t(1 + pick(2)), std::move(body), how));
    } else if (kind == 7) {
      const Expr* c = boolean(1, 2);
      auto yes = block(depth - 1);
      std::vector<loop::StmtPtr> no;
      if (pick(2)) no = block(depth - 1);
      out.push_back(if_(c, std::move(yes), std::move(no)));
    } else {
      // Counts a local down.
      const Expr* v = p_.var({DType::I64, 1});
      out.push_back(define(loop::StmtKind::Local, v, p_.integer(int64_t(pick(4)))));
      auto body = block(depth - 1);
      body.push_back(define(loop::StmtKind::Assign, v, p_.add(v, p_.integer(-1))));
      out.push_back(while_(p_.make(Op::Lt, {DType::Bool, 1}, {p_.integer(0), v}), p_.integer(10), std::move(body)));
    }
  }

  // One lane: the first of n elements that lie in a buffer.
  const Expr* index(uint16_t n) {
    const Expr* any = value({DType::I64, 1}, 1);
    const Expr* at = p_.make(Op::FloorMod, {DType::I64, 1}, {any, p_.integer(kLength - 16 - n)});
    return pick(2) ? p_.add(at, p_.integer(int64_t(pick(16)))) : at;
  }
  // Distinct elements, so that the order of lanes does not matter.
  const Expr* scatter(uint16_t n) { return p_.ramp(index(uint16_t(n * 8)), n, int64_t(1 + pick(8))); }

  const Expr* boolean(uint16_t n, int depth) {
    const DType t = pick(2) ? DType::F32 : DType::I64;
    constexpr Op ops[] = {Op::Lt, Op::Le, Op::Eq, Op::Ne};
    const Expr* c = p_.make(ops[pick(4)], {DType::Bool, n}, {value({t, n}, depth - 1), value({t, n}, depth - 1)});
    if (depth > 1 && pick(3) == 0)
      return p_.make(pick(2) ? Op::And : Op::Or, {DType::Bool, n}, {c, boolean(n, depth - 1)});
    return pick(5) == 0 ? p_.make(Op::Not, {DType::Bool, n}, {c}) : c;
  }

  const Expr* value(Type t, int depth) {
    if (depth <= 0 || pick(6) == 0) return leaf(t);
    auto sub = [&] { return value(t, depth - 1); };
    if (pick(8) == 0 && t.lanes > 1) return p_.splat(value({t.dtype, 1}, depth - 1), t.lanes);
    if (pick(10) == 0 && t.lanes > 1)
      return p_.make(Op::Widen, t, {value({t.dtype, uint16_t(t.lanes / 2)}, depth - 1), value({t.dtype, uint16_t(t.lanes / 2)}, depth - 1)});
    if (pick(10) == 0 && t.lanes == 1) {
      constexpr Op ops[] = {Op::SumLanes, Op::MinLanes, Op::MaxLanes, Op::Extract};
      const Op op = ops[pick(4)];
      const Expr* r = p_.make(op, t, {value({t.dtype, 8}, depth - 1)}, op == Op::Extract ? int64_t(pick(8)) : 0);
      return is_float(t.dtype) ? plus_zero(r) : r;
    }
    if (pick(8) == 0) return p_.make(Op::Select, t, {boolean(t.lanes, depth - 1), sub(), sub()});
    if (is_float(t.dtype)) {
      switch (pick(10)) {
        case 0: return p_.make(Op::Fma, t, {sub(), sub(), sub()});
        case 1: return p_.make(Op::Fma, t, {p_.make(Op::Splat, t, {value({t.dtype, 1}, depth - 1)}), sub(), sub()});
        case 2: return plus_zero(p_.make(pick(2) ? Op::Min : Op::Max, t, {sub(), sub()}));
        case 3: return p_.make(pick(2) ? Op::Floor : Op::Rint, t, {sub()});
        case 4: return p_.make(Op::Sqrt, t, {p_.make(Op::Abs, t, {sub()})});
        case 5: return p_.make(Op::Cast, t, {value({DType::I64, t.lanes}, depth - 1)});
        case 6: return p_.make(Op::Cast, t, {p_.load(3, {DType::F16, t.lanes}, index(t.lanes))});
        case 7: return p_.make(Op::Div, t, {sub(), sub()});
        default: return p_.make(pick(2) ? Op::Add : pick(2) ? Op::Mul : Op::Sub, t, {sub(), sub()});
      }
    }
    if (t.dtype == DType::I32 && pick(6) == 0) return p_.make(Op::Dot, t, {sub(), bytes(4 * t.lanes), bytes(4 * t.lanes)});
    switch (pick(8)) {
      case 0: return p_.make(Op::Cast, t, {value({t.dtype == DType::I64 ? DType::I32 : DType::I64, t.lanes}, depth - 1)});
      case 1: return p_.make(Op::SatCast, t, {value({DType::F32, t.lanes}, depth - 1)});
      case 2: return p_.make(pick(2) ? Op::FloorDiv : Op::FloorMod, t, {sub(), p_.make(Op::BitOr, t, {sub(), constant(t, 1)})});
      case 3: return p_.make(pick(2) ? Op::Min : Op::Max, t, {sub(), sub()});
      case 4: return p_.make(pick(2) ? Op::BitAnd : Op::BitXor, t, {sub(), sub()});
      case 5: return p_.make(pick(2) ? Op::Shl : Op::Shr, t, {sub(), constant(t, int64_t(pick(12)))});
      default: return p_.make(pick(2) ? Op::Add : pick(2) ? Op::Mul : Op::Sub, t, {sub(), sub()});
    }
  }

  // An operand of a Dot: many bytes, or a group of four over and over.
  const Expr* bytes(int lanes) {
    const auto n = static_cast<uint16_t>(lanes), loaded = pick(2) ? n : uint16_t{4};
    const Expr* e = p_.load(2, {DType::U8, loaded}, index(loaded));
    if (loaded < n) e = p_.splat(e, n);
    return pick(2) ? e : p_.make(Op::Bitcast, {DType::I8, n}, {e});
  }

  // -0 becomes 0: which zero a minimum returns is not specified.
  const Expr* plus_zero(const Expr* e) {
    const Expr* zero = p_.number(0, e->type.dtype);
    return p_.add(e, e->type.lanes == 1 ? zero : p_.splat(zero, e->type.lanes));
  }
  const Expr* constant(Type t, int64_t v) {
    const Expr* c = p_.integer(v, t.dtype);
    return t.lanes == 1 ? c : p_.splat(c, t.lanes);
  }

  const Expr* leaf(Type t) {
    for (const Expr* v : locals_)
      if (v->type == t && pick(2)) return v;
    const uint16_t n = t.lanes;
    const Expr* mask = pick(4) == 0 ? p_.make(Op::Lt, {DType::Bool, n}, {ramp_or_int(n), constant({DType::I64, n}, int64_t(pick(20)))}) : nullptr;
    if (t.dtype == DType::F32) {
      if (pick(3) == 0) {
        const Expr* c = p_.number(double(int64_t(pick(64)) - 32) / 4);
        return n == 1 ? c : p_.splat(c, n);
      }
      const uint32_t array = pick(3) == 0 ? 6 : 0;
      return p_.load(array, t, at_leaf(n), mask);
    }
    if (t.dtype == DType::I32 && pick(2)) return pick(2) ? p_.load(1, t, at_leaf(n), mask)
                                                         : p_.make(Op::Cast, t, {p_.load(2, {DType::U8, n}, at_leaf(n), mask)});
    if (t.dtype == DType::I64 && pick(2)) return ramp_or_int(n);
    return constant(t, int64_t(pick(200)) - 100);
  }
  const Expr* ramp_or_int(uint16_t n) {
    const Expr* i = ints_[pick(ints_.size())];
    return n == 1 ? i : pick(2) ? p_.ramp(i, n, int64_t(pick(5)) - 2) : p_.splat(i, n);
  }
  const Expr* at_leaf(uint16_t n) {
    const Expr* i = ints_[pick(ints_.size())];
    if (n > 1 && pick(6) == 0)
      return p_.make(Op::FloorMod, {DType::I64, n}, {p_.ramp(i, n, int64_t(pick(40))), constant({DType::I64, n}, kLength)});
    return p_.add(p_.make(Op::FloorMod, {DType::I64, 1}, {i, p_.integer(kLength - 48)}), p_.integer(int64_t(pick(32))));
  }

  Pool& p_;
  std::mt19937_64 random_;
  loop::Kernel k_;
  ir::Sym sym_;
  std::vector<const Expr*> ints_, locals_;
};

// Buffers of a random kernel, and what the reference makes of them.
struct RandomData {
  static constexpr DType kTypes[] = {DType::F32, DType::I32, DType::U8, DType::F16, DType::F32, DType::I64};
  std::vector<AlignedBytes> buffers;
  explicit RandomData(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (DType t : kTypes) {
      buffers.emplace_back(size_t(RandomKernel::kLength) * bytes_of(t));
      for (int64_t k = 0; k < RandomKernel::kLength; ++k) {
        Lane l;
        l.f = round_to(double(int64_t(random() % 4096) - 2048) / 128, t);
        l.i = wrap(int64_t(random() % 512) - 256, t);
        write_element(buffers.back().data.get() + k * bytes_of(t), l, t);
      }
    }
  }
};

// A module of kernels, of which those whose frames would be too large keep their values in scratch memory. Values of 512 bytes, which no
// schedule makes, are the whole register file of rv64gcv: one in ten may be too large there even so, and is emptied.
inline Result<targets::Module> emit_in_small_frames(const targets::Target& target, std::span<loop::Kernel> kernels) {
  std::vector<targets::LargeFrame> large;
  auto module = targets::emit_module(target, kernels, &large);
  if (!module.ok() || large.empty()) return module;
  std::vector<loop::Hoisting> before;
  for (const loop::Kernel& k : kernels) before.push_back(k.hoisting);
  for (const targets::LargeFrame& frame : large) kernels[frame.kernel].hoisting = loop::Hoisting::None;
  large.clear();
  module = targets::emit_module(target, kernels, &large);
  if (module.ok() && !large.empty()) {
    CHECK_MESSAGE((targets::has_feature(target, "rv.v") && large.size() * 10 <= kernels.size() + 9), target.name << ": " << large.size());
    for (const targets::LargeFrame& frame : large) kernels[frame.kernel].body.clear();
    module = targets::emit_module(target, kernels);
  }
  for (size_t k = 0; k < kernels.size(); ++k) kernels[k].hoisting = before[k];
  return module;
}

}  // namespace mlc::testing
