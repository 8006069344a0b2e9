// Intervals of expressions of the Nest level, as far as they matter for indices, and what an interval demanded of an
// expression demands of the arrays in it. Private to value_bounds.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>

#include "packager/compile/golden/value_bounds.h"
#include "packager/ir/context.h"

namespace mlc::compile {

struct ValueRange {
  Range range;
  bool is_free = false;  // depends on the values of inputs, or on what is not followed
};

// Elements that are looked at together: an array, or the part of it with one index along an axis that is put together from
// such parts (rows and columns, concatenated to pairs).
struct Place {
  static constexpr int64_t kWhole = -1;
  uint32_t array = 0;
  int64_t part = kWhole;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// What is known while one statement is looked at. The functions must outlive it.
class Ranges {
 public:
  struct Known {
    std::function<Place(const ir::Expr* load)> place;
    std::function<ValueRange(const Place&)> of_place;
    std::function<ValueRange(const ir::Sym*)> of_sym;
    // Of what is_extent, which every statement sees alike: kept from one to the next, for as long as `of_sym` says the same.
    mutable std::unordered_map<const ir::Expr*, ValueRange> extents;
  };
  explicit Ranges(const Known& known) : outside_(known) {}

  ValueRange of(const ir::Expr* e);

  using Demands = std::map<Place, InputBounds>;
  // Adds to `demands` what the arrays in `e` must be for `e` to lie in `wanted`; false if they cannot make it lie there.
  bool demand(const ir::Expr* e, Range wanted, Demands& demands, bool is_summed = false, int depth = 0);

 private:
  const ValueRange* known(const ir::Expr* e) const;
  const ValueRange& at(const ir::Expr* e) const { return *known(e); }
  ValueRange compute(const ir::Expr* e);
  ValueRange select(const ir::Expr* e);
  Range fold(const ir::Expr* e, Range body);
  bool demand_sum(const ir::Expr* a, const ir::Expr* b, Range wanted, Demands& demands, bool is_summed, int depth);
  bool demand_difference(const ir::Expr* a, const ir::Expr* b, Range wanted, Demands& demands, bool is_summed, int depth);
  bool demand_product(const ir::Expr* a, const ir::Expr* b, Range wanted, Demands& demands, bool is_summed, int depth);
  bool demand_bound(const ir::Expr* e, Range wanted, Demands& demands, bool is_summed, int depth);
  bool demand_select(const ir::Expr* e, Range wanted, Demands& demands, bool is_summed, int depth);
  bool demand_fold(const ir::Expr* e, Range wanted, Demands& demands, bool is_summed, int depth);

  const Known& outside_;
  std::unordered_map<const ir::Expr*, ValueRange> known_;
  int visits_ = 0;  // by the demand that is followed
};

// Of the points of a fold or a running fold.
Range range_of_join(ir::Join join, Range body, double points);
// What elements of this type can be at all.
Range range_of_type(DType dtype);

}  // namespace mlc::compile
