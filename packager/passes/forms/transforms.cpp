#include "packager/passes/forms/transforms.h"

#include <cmath>
#include <span>

namespace mlc::passes {

using ir::Op;

namespace {

// A pair of points p and -p. The weights' polynomial is scaled there; so is what results take of it, by a power of two that makes the
// powers of 1/2 whole numbers.
struct Pair {
  double point, scale;
};
constexpr Pair kFour[] = {{1, 1.0 / 2}}, kSix[] = {{1, -1.0 / 6}, {2, 1.0 / 24}}, kEight[] = {{1, -2.0 / 9}, {2, 1.0 / 90}, {0.5, 32.0 / 45}};

std::span<const Pair> pairs_of(int64_t points) {
  if (points == 4) return kFour;
  if (points == 6) return kSix;
  return kEight;
}

// What the results of a tile are multiplied by at this point, the weights divided by.
double unit_of(const Pair& pair, int64_t tile) { return pair.point < 1 ? std::pow(pair.point, 1 - static_cast<double>(tile)) : 1; }

}  // namespace

const Expr* Transform::add(const Expr* a, const Expr* b) const { return ctx_.binary(Op::Add, a, b); }
const Expr* Transform::sub(const Expr* a, const Expr* b) const { return ctx_.binary(Op::Sub, a, b); }
const Expr* Transform::times(double factor, const Expr* a) const {
  return factor == 1 ? a : ctx_.binary(Op::Mul, ctx_.number(factor, a->type.dtype), a);
}

// The coefficients of the product of x - q over all other points q; for infinity, over all.
Values Transform::of_input(const Values& d) const {
  if (points_ == 4) return {sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[3], d[1])};
  if (points_ == 6) {
    const Expr *even = sub(d[4], times(4, d[2])), *odd = sub(d[3], times(4, d[1]));
    const Expr *near = sub(d[4], d[2]), *far = times(2, sub(d[3], d[1]));
    return {add(sub(times(4, d[0]), times(5, d[2])), d[4]), add(even, odd), sub(even, odd), add(near, far), sub(near, far),
            add(sub(times(4, d[1]), times(5, d[3])), d[5])};
  }
  const Expr *even = sub(add(d[2], d[6]), times(4.25, d[4])), *odd = sub(add(d[1], d[5]), times(4.25, d[3]));
  const Expr* even2 = add(d[6], sub(times(0.25, d[2]), times(1.25, d[4])));
  const Expr* odd2 = add(sub(times(0.5, d[1]), times(2.5, d[3])), times(2, d[5]));
  const Expr* even_half = add(d[6], sub(times(4, d[2]), times(5, d[4])));
  const Expr* odd_half = add(sub(times(2, d[1]), times(2.5, d[3])), times(0.5, d[5]));
  return {add(sub(d[0], d[6]), times(5.25, sub(d[4], d[2]))), add(even, odd), sub(even, odd), add(even2, odd2), sub(even2, odd2),
          add(even_half, odd_half), sub(even_half, odd_half), add(sub(d[7], d[1]), times(5.25, sub(d[3], d[5])))};
}

Values Transform::of_weights(const Values& g) const {
  Values all{times(points_ == 6 ? 0.25 : 1, g[0])};
  for (const Pair& pair : pairs_of(points_)) {
    const Expr* sums[2] = {};  // of even and of odd powers
    for (size_t k = 0; k < g.size(); ++k) {
      const Expr* term = times(pair.scale / unit_of(pair, tile()) * std::pow(pair.point, static_cast<double>(k)), g[k]);
      sums[k % 2] = sums[k % 2] ? add(sums[k % 2], term) : term;
    }
    all.push_back(add(sums[0], sums[1]));
    all.push_back(sub(sums[0], sums[1]));
  }
  all.push_back(g.back());
  return all;
}

Values Transform::of_result(const Values& m) const {
  const std::span<const Pair> pairs = pairs_of(points_);
  Values sums, differences, all;
  for (size_t k = 0; k < pairs.size(); ++k) {
    sums.push_back(add(m[1 + 2 * k], m[2 + 2 * k]));
    differences.push_back(sub(m[1 + 2 * k], m[2 + 2 * k]));
  }
  for (int64_t i = 0; i < tile(); ++i) {
    const Expr* y = i == 0 ? m.front() : nullptr;
    for (size_t k = 0; k < pairs.size(); ++k) {
      const double power = unit_of(pairs[k], tile()) * std::pow(pairs[k].point, static_cast<double>(i));
      const Expr* term = times(power, (i % 2 ? differences : sums)[k]);
      y = y ? add(y, term) : term;
    }
    all.push_back(i + 1 == tile() ? add(y, m.back()) : y);
  }
  return all;
}

Values along_axes(const std::vector<Transform>& axes, Values values, Values (Transform::*one)(const Values&) const) {
  // Axis k of what comes in has `old` elements, the axes behind it `behind` together; those before it are transformed already.
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto extent = [&](size_t axis, bool is_result) {
      const Transform& t = axes[axis];
      const bool of_weights = one == &Transform::of_weights, of_result = one == &Transform::of_result;
      return static_cast<size_t>(is_result ? (of_result ? t.tile() : t.points()) : of_weights ? t.taps() : t.points());
    };
    size_t behind = 1;
    for (size_t axis = k + 1; axis < axes.size(); ++axis) behind *= extent(axis, false);
    const size_t before = values.size() / behind / extent(k, false), made = extent(k, true);
    Values out(before * made * behind);
    for (size_t i = 0; i < before; ++i)
      for (size_t j = 0; j < behind; ++j) {
        Values line;
        for (size_t e = 0; e < extent(k, false); ++e) line.push_back(values[(i * extent(k, false) + e) * behind + j]);
        line = (axes[k].*one)(line);
        for (size_t e = 0; e < made; ++e) out[(i * made + e) * behind + j] = line[e];
      }
    values = std::move(out);
  }
  return values;
}

}  // namespace mlc::passes
