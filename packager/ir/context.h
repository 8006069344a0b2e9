// Owns and hash-conses expressions. The constructors simplify as they build: constants fold, and i64 arithmetic is kept
// in a normal form (sums of products with constants gathered, floordiv and mod by constants split where divisibility is
// known), so that equal extents meet as equal pointers. One Context per compilation; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "packager/ir/expr.h"
#include "packager/ir/interval.h"

namespace mlc::ir {

class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;

  // Leaves.
  const Expr* integer(int64_t value, DType dtype = DType::I64);
  const Expr* number(double value, DType dtype);  // floating point, or rounded to the integer type
  const Expr* boolean(bool value);
  const Expr* sym(const Sym* sym);                // i64
  const Expr* dim(const Dim* dim);                // i64
  const Expr* fresh_var(Type type);
  const Sym* declare_sym(std::string name, int64_t lo = 0, int64_t hi = INT64_MAX, int64_t multiple = 1);  // by name, once
  // The one for what a kernel or a proof counts itself, named by purpose, number and facts: the same wherever they are the same.
  const Sym* numbered_sym(const std::string& purpose, size_t number, int64_t lo, int64_t hi, int64_t multiple);
  const Dim* declare_dim(std::string name, const Expr* extent);
  const Combiner* builtin(Join join);
  const Combiner* declare_combiner(Combiner combiner);

  // Nodes.
  const Expr* load(uint32_t array, Type type, std::vector<const Expr*> index, Access access = Access::Proved);
  const Expr* fold(Fold fold, std::vector<const Expr*> bodies);   // type of the first field
  const Expr* field(const Expr* fold, unsigned index);
  const Expr* unary(Op op, const Expr* a);
  const Expr* cast(DType to, const Expr* a);
  const Expr* convert(Op op, Type to, const Expr* a);             // Cast, SatCast, Bitcast, Splat
  const Expr* binary(Op op, const Expr* a, const Expr* b);        // comparisons have type Bool
  const Expr* select(const Expr* c, const Expr* a, const Expr* b);
  const Expr* fma(const Expr* a, const Expr* b, const Expr* c);
  const Expr* logical_not(const Expr* a) { return unary(Op::Not, a); }
  const Expr* logical_and(const Expr* a, const Expr* b) {  // null reads as true
    return !a ? b : !b ? a : binary(Op::And, a, b);
  }
  const Expr* raw(Expr node, std::vector<const Expr*> args);      // any node, hash-consed but not simplified

  // Shorthands for i64.
  const Expr* add(const Expr* a, const Expr* b) { return binary(Op::Add, a, b); }
  const Expr* sub(const Expr* a, const Expr* b) { return binary(Op::Sub, a, b); }
  const Expr* mul(const Expr* a, const Expr* b) { return binary(Op::Mul, a, b); }
  const Expr* floordiv(const Expr* a, const Expr* b) { return binary(Op::FloorDiv, a, b); }
  const Expr* floormod(const Expr* a, const Expr* b) { return binary(Op::FloorMod, a, b); }
  const Expr* ceildiv(const Expr* a, const Expr* b);
  const Expr* min(const Expr* a, const Expr* b) { return binary(Op::Min, a, b); }
  const Expr* max(const Expr* a, const Expr* b) { return binary(Op::Max, a, b); }
  const Expr* product(std::span<const Expr* const> factors);

  // Rebuilds `e` bottom-up with leaves (or any node) replaced: `replace` returns the substitute, or null to keep and
  // descend. Iterative in effect: shared nodes are rebuilt once. Dims bound by a Fold inside `e` may be replaced too.
  const Expr* rewrite(const Expr* e, const std::function<const Expr*(const Expr*)>& replace);
  const Expr* substitute(const Expr* e, const std::unordered_map<const Expr*, const Expr*>& map);
  // `node` with other arguments, through the constructor of its operation (so it simplifies). A Fold takes its bodies.
  const Expr* rebuild(const Expr* node, std::vector<const Expr*> args);

  // What a built-in join starts from (Sum 0, Prod 1, Min +inf or the highest integer, ..., Last 0) and how it combines.
  const Expr* unit_of(Join join, DType dtype);
  const Expr* join_of(Join join, const Expr* left, const Expr* right);  // not Custom
  // The same for any combiner, field by field; `types` are the types of the fields.
  std::vector<const Expr*> units(const Combiner* combiner, std::span<const Type> types);
  std::vector<const Expr*> combine(const Combiner* combiner, std::span<const Expr* const> left,
                                   std::span<const Expr* const> right);

  struct Impl;  // packager/ir only
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Closed interval of an i64 (or Bool) expression from the facts of its symbols and dims (a dim lies in 0..extent-1).
// Saturates at INT64_MIN/MAX, which read as unbounded.
Interval interval_of(const Expr* e);
// True if `condition` (Bool) holds for all values of its symbols and dims, also using that each of `given` holds.
// The simplifier assumes that index arithmetic (anything made of symbols, dims and variables) does not overflow:
// evaluate_extent reports where it would. Arithmetic on loaded i64 values wraps, and is simplified only where that agrees.
// Adding a literal floating-point zero is dropped (the sign of a zero sum is not kept); nothing else rounds differently.
bool proves(Context& ctx, const Expr* condition, std::span<const Expr* const> given = {});
// Largest known constant that divides `e` always (0 for the constant 0).
int64_t divisor_of(const Expr* e);

// True if `e` is made of what is known before the kernels run, by operations that can be worked out there: the arithmetic
// of extents. Anything else is computed by a kernel and read back.
bool is_extent(const Expr* e);
// True if an extent has a value whatever its symbols are (but for overflow): no division by what may be zero, no real number
// that may be none.
bool always_has_value(const Expr* e);
// The extent `e` with a value whatever its symbols are: what is divided by zero is divided by one instead. For figures on which no
// result depends. Null if it is no extent, or real numbers stand in it.
const Expr* with_value(Context& ctx, const Expr* e);
bool may_fail(const Expr* e);  // its own operation, whatever its arguments are

// Linear form of an i64 expression in some leaves: e = rest + sum coefficient[k] * leaf[k], the coefficients and the
// rest free of those leaves. Nothing if `e` is not linear in them.
struct Linear {
  std::vector<const Expr*> coefficients;
  const Expr* rest = nullptr;
};
std::optional<Linear> linear_in(Context& ctx, const Expr* e, std::span<const Expr* const> leaves);

// The order in which sums, products and operands that commute are written: below 0 if `a` comes first, 0 if they are the same node. By
// what they say. By age it would not do: a node that an earlier kernel needed too is older than what this kernel makes beside it, and
// the same statement would be another text.
int compare(const Expr* a, const Expr* b);

// Calls `visit` once per distinct node below and including `e`, arguments first (bodies of folds and their `where`
// included). Not recursive.
void walk(const Expr* e, const std::function<void(const Expr*)>& visit);

// The same, but what is_extent is passed over: no load, dim or variable is in it, however long it is.
void walk_past_extents(const Expr* e, const std::function<void(const Expr*)>& visit);

bool depends_on(const Expr* e, const Expr* node);  // true if `node` occurs in e (the extents of dims are not searched)

// The value of an extent for given symbols, with 64-bit overflow and division by zero reported as nullopt.
std::optional<int64_t> evaluate_extent(const Expr* e, const std::function<std::optional<int64_t>(const Sym*)>& value_of);

std::string to_string(const Expr* e);  // the text form of nest/text/print.h

}  // namespace mlc::ir
