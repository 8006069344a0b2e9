// The transforms of Winograd's convolutions along an axis: polynomials are evaluated at `points` points, multiplied there, and
// interpolated (Toom and Cook, transposed). The points are 0, 1, -1, from six on 2 and -2, of eight 1/2 and -1/2, and infinity.
#pragma once

#include <vector>

#include "packager/passes/util.h"

namespace mlc::passes {

using Values = std::vector<const Expr*>;

class Transform {
 public:
  // For windows of `taps`: from 2 on, fewer than there are points, of which there are 4, 6 or 8.
  Transform(ir::Context& ctx, int64_t points, int64_t taps) : ctx_(ctx), points_(points), taps_(taps) {}

  int64_t points() const { return points_; }
  int64_t taps() const { return taps_; }
  int64_t tile() const { return points_ - taps_ + 1; }  // results that a tile has

  Values of_input(const Values& d) const;    // as many values as points: what lies under a tile
  Values of_weights(const Values& g) const;  // the taps to points
  Values of_result(const Values& m) const;   // the points to a tile

 private:
  const Expr* add(const Expr* a, const Expr* b) const;
  const Expr* sub(const Expr* a, const Expr* b) const;
  const Expr* times(double factor, const Expr* a) const;

  ir::Context& ctx_;
  int64_t points_, taps_;
};

// One after the other along each axis of a row-major array; `one` says which.
Values along_axes(const std::vector<Transform>& axes, Values values, Values (Transform::*one)(const Values&) const);

}  // namespace mlc::passes
