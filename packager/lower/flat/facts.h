// What lowering asks about expressions over and over: on which dims they depend, whether they may be evaluated where
// their guard does not hold, how much they cost. Answers are kept per node.
#pragma once

#include <unordered_map>
#include <vector>

#include "packager/ir/context.h"
#include "packager/ir/typical.h"

namespace mlc::lower {

using DimSet = uint64_t;

class Facts {
 public:
  // Free dims, as a set over indices that are given out on first sight. A statement with more than 64 dims sets
  // `overflow` and is refused.
  DimSet dims(const ir::Expr* e) { return e ? of(e).dims : 0; }
  bool depends(const ir::Expr* e, const ir::Dim* d) { return (dims(e) & bit(d)) != 0; }
  DimSet bit(const ir::Dim* d);
  bool has_fold(const ir::Expr* e) { return of(e).fold; }
  // Contains a Load that is in range only under the conditions around it.
  bool needs_guard(const ir::Expr* e) { return of(e).guard; }
  // Rough number of scalar operations to evaluate it once, extents of folds estimated.
  double cost(const ir::Expr* e) { return of(e).cost; }
  bool overflow() const { return overflow_; }

 private:
  struct Fact {
    DimSet dims = 0;
    bool fold = false, guard = false;
    double cost = 0;
  };
  const Fact& of(const ir::Expr* e);
  std::unordered_map<const ir::Expr*, Fact> facts_;
  std::unordered_map<const ir::Dim*, unsigned> bits_;
  bool overflow_ = false;
};

// Rough number of scalar operations of the node without its operands; of a fold, per point.
double cost_alone(const ir::Expr* e);

using ir::estimate;

// Whether `part` is evaluated wherever `value` is: not inside the arm of a select, another fold or an address.
bool is_unconditional(const ir::Expr* value, const ir::Expr* part);

// A load with so few values is a weight that inner loops keep in registers; how it is gathered does not matter.
constexpr double kFewValues = 64;
// How many different values `e` takes at most for one value of `except`: the product of the extents of its other dims.
double distinct_values(const ir::Expr* e, const ir::Dim* except);

// Whether `address` moves by one element from one point of `d` to the next, where nothing broadcasts at run time.
bool is_contiguous(ir::Context& ctx, const ir::Expr* address, const ir::Dim* d);

}  // namespace mlc::lower
