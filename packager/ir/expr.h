// The one expression node of the compiler: scalar bodies of nests, index arithmetic, extents of dims, and the
// expressions of Loop kernels are all made of it. Nodes are immutable, live in a Context and are hash-consed: equal
// expressions are the same pointer, so common subexpressions need no pass and equality of shapes is identity.
//
// Which operations may appear where is a table per level (nest/verify/verify.h, loop/verify.h):
//   extents        Const Sym and integer arithmetic (plus floating-point arithmetic rounded to an integer)
//   Nest bodies    everything but Var, Exp2 and the vector operations
//   Loop           everything but Dim, Fold, Field and the transcendental functions (expanded by passes/expand_math)
//
// Types. Index arithmetic is i64. Truth values are Bool. There are no implicit conversions: operands of arithmetic have
// the type of the result, comparisons have operands of equal type. Integer arithmetic wraps at the width of its type.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace mlc::ir {

struct Type {
  DType dtype = DType::None;
  uint16_t lanes = 1;  // above 1 only in Loop
  friend bool operator==(Type, Type) = default;
};

enum class Op : uint8_t {
  // Leaves.
  Const,  // number of `type`: integer (also Bool) in `i`, floating point in `f`
  Sym,    // `sym`: an integer known before the kernels run (a free extent, a value read back)
  Dim,    // `dim`: the running index of a dim
  Var,    // `i`: number of a loop variable, let or local of a Loop kernel or proc; unique in its Context
  // Memory. Nest: args = one i64 index per axis. Loop: args = {linear element index} or {index, mask}; an index of one
  // lane reads `type.lanes` neighbouring elements, an index of many lanes gathers. A masked-off lane reads as zero.
  Load,   // `array`; `access` says how the index is known to be in range
  // Folds. args = one body per field of the combiner. Field picks a result (`i`); a Fold of one field is its value.
  Fold,   // `fold`
  Field,
  // One operand.
  Neg, Abs, Not, BitNot, Floor, Ceil, Trunc, Rint /* half to even */, Sqrt,
  IsNan, IsInf,
  Exp, Log, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Erf,
  Cast,     // numeric conversion to `type`; float to integer truncates, then keeps the low bits (beyond 32 bits: unspecified); to Bool: != 0
  SatCast,  // float to integer: clamped to the range (NaN gives 0), then truncated; integer to integer: clamped
  Bitcast,  // same bits, other type of equal width; in Loop also lanes of 32 bits as four codes of 8 bits each, the first one in the low bits, and back
  Tf32,     // f32 to the nearest number whose last 13 bits are zero, ties away from zero: what tensor cores take of an f32
  Exp2,     // f32: 2^x within 2 units in the last place, zero where that is below 2^-126; an instruction of devices (Target::has_exp2)
  // Two operands.
  Add, Sub, Mul,
  Div,                 // floating point only
  FloorDiv, FloorMod,  // integers: rounded down, sign of the divisor; floats: floor(a / b) and a - b * floor(a / b)
  TruncDiv, TruncMod,  // integers: rounded toward zero, sign of the dividend; floats: fmod
  Min, Max,            // floats: NaN if either is NaN
  Pow,                 // float ** float; int ** int (that one is in Loop too)
  And, Or,             // Bool: lazy in the second operand
  BitAnd, BitOr, BitXor, Shl, Shr /* arithmetic for signed types, logical for unsigned ones */,
  Lt, Le, Eq, Ne,      // Bool
  // Three operands.
  Select,  // args[0] ? args[1] : args[2]; lazy: the arm not taken reads nothing
  Fma,     // a * b + c; fused where the hardware is, else two roundings
  // Vectors, Loop only.
  Splat,    // args[0], one lane or a group of neighbouring ones, over and over to type.lanes
  Ramp,     // args[0] + {0, 1, ..., lanes - 1} * i
  Extract,  // lane `i` of args[0]
  SumLanes, ProdLanes, MinLanes, MaxLanes,  // horizontal, pairwise tree, to one lane
  Widen,    // concatenation of args into one vector (all of equal type)
  Dot,      // lane l of args[0] + sum of the products of the lanes of args[1] and args[2] that are as wide as it: see below
};

// Dot(acc, a, b). A lane of acc (type of the result) is as wide as a group of G neighbouring lanes of a and of b:
//   r[l] = acc[l] + sum over g in 0 .. G of a[G*l + g] * b[G*l + g]
// a, b of i8 or u8, each with its own sign: G = 4, acc i32; of i16: G = 2, acc i32. These are exact and wrap in i32 like any
// sum. a, b of bf16: G = 2, acc f32; products are exact, in which order the three terms are added, whether they are rounded in
// between, and whether subnormal ones count is the target's.

// How a Load's index is known to lie in its array.
enum class Access : uint8_t {
  Proved,   // by interval analysis, possibly under the `where` or Select that surrounds it
  Checked,  // loaded or unprovable: clamped into the array, and a violation faults the run
  Clamped,  // the text clamps it explicitly; no fault
};

struct Expr;
class Context;

// A free integer of the program. lo/hi/multiple are facts the packager may rely on; the plan checks them at run time.
struct Sym {
  std::string name;  // unique in its Context; any text is legal ("p2o.DynamicDimension.0")
  int64_t lo = 0;
  int64_t hi = INT64_MAX;
  int64_t multiple = 1;
};

// An axis with a name and an extent. Identity is the object: two dims of the same name and extent are different dims.
struct Dim {
  std::string name;
  const Expr* extent = nullptr;  // Const, Sym and arithmetic of them; i64
  uint32_t id = 0;               // unique in its Context, in order of creation
};

enum class Join : uint8_t { Sum, Prod, Min, Max, Any, All, Last, Custom };

// What a fold combines with. The built-in ones have one field. A Custom one has `units` and `joins`, one per field; the
// joins are expressions over the Vars `left` and `right` (one of each per field).
struct Combiner {
  std::string name;
  Join join = Join::Sum;
  bool commutative = true;  // associative and commutative: may be split over lanes, tiles and threads
  std::vector<const Expr*> units, left, right, joins;
};

struct Fold {
  const Combiner* combiner = nullptr;
  std::vector<const Dim*> dims;    // outer to inner
  const Expr* where = nullptr;     // points where it is false do not exist; null: all
};

struct Expr {
  Op op = Op::Const;
  Type type;
  Access access = Access::Proved;
  uint32_t array = 0;  // Load: index into the arrays of the nest function, or the buffers of the Loop kernel
  int64_t i = 0;       // Const, Var, Field, Ramp, Extract
  double f = 0;        // Const
  const Sym* sym = nullptr;
  const Dim* dim = nullptr;
  const Fold* fold = nullptr;
  std::span<const Expr* const> args;  // owned by the Context
  uint32_t id = 0;                    // order of creation in its Context; depends on what was made before, so it orders nothing that is written

  bool is_const() const { return op == Op::Const; }
  bool is_int(int64_t value) const { return op == Op::Const && !is_float(type.dtype) && i == value; }
};

}  // namespace mlc::ir
