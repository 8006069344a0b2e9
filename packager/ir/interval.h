// Intervals of integers: what an operation can be, from what its operands can be. One set of rules for all that asks: what a Context
// knows of each node (facts.cpp), and what an emitter knows of the expressions of a kernel (KernelIntervals).
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "packager/ir/expr.h"

namespace mlc::ir {

// Closed. Of a type that is no integer, and of u64, nothing is known: all of int64.
struct Interval {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
  friend bool operator==(Interval, Interval) = default;
};
Interval interval_of_type(DType type);
inline bool within(Interval inner, Interval outer) { return inner.lo >= outer.lo && inner.hi <= outer.hi; }

// What arithmetic does at the ends of its type.
enum class Overflow : bool {
  Never,  // index arithmetic: numbers of unlimited width; an end of int64 is no bound, and no operation makes it one
  Wraps,  // as the machine does: what may leave the type can be anything in it
};
// Of the operation of `e` alone, `args` being the intervals of its first operands, up to three. Leaves other than constants, and
// operations without a rule, can be all of their type.
Interval interval_of_operation(const Expr& e, Overflow overflow, const Interval* args);

// As if in numbers of unlimited width (Overflow::Never).
Interval interval_add(Interval a, Interval b);
Interval multiply(Interval a, Interval b);

// The truth of a comparison that these settle.
std::optional<bool> settled(Op comparison, Interval a, Interval b);

// Of expressions of a kernel, where all arithmetic wraps. Of vectors: of all lanes.
class KernelIntervals {
 public:
  // Of a variable, and of a symbol beside what it says itself; before anything that it occurs in is asked for.
  void bind(const Expr* var, Interval v) { known_[var] = v; }
  void assume(const Sym* sym, Interval v) { syms_[sym] = v; }
  Interval of(const Expr* e);

 private:
  Interval compute(const Expr& e) const;

  std::unordered_map<const Sym*, Interval> syms_;
  std::unordered_map<const Expr*, Interval> known_;
};

}  // namespace mlc::ir
