// Sums of products of two loads, both affine, under affine conditions: no instructions, but loops that step through memory.
// The lanes are the inner loop, or, where only one operand varies along them, lanes by kGroup rows of another map dim.
#include <algorithm>

#include "packager/nest/block_machine.h"

namespace mlc::nest {

namespace {

// total[i] += x[i * x_step] * y[i * y_step]: rounded twice, as two operations of expr.h are.
void multiply_add(float* total, const float* x, int64_t x_step, const float* y, int64_t y_step, int64_t n) {
  if (x_step == 1 && y_step == 0) {
    const float factor = *y;
    for (int64_t i = 0; i < n; ++i) total[i] += x[i] * factor;
  } else if (x_step == 0 && y_step == 1) {
    const float factor = *x;
    for (int64_t i = 0; i < n; ++i) total[i] += factor * y[i];
  } else if (x_step == 1 && y_step == 1) {
    for (int64_t i = 0; i < n; ++i) total[i] += x[i] * y[i];
  } else {
    for (int64_t i = 0; i < n; ++i) total[i] += x[i * x_step] * y[i * y_step];
  }
}

// The same for kGroup rows at once, total[lane][row]: each row has a factor of its own, and these lie `row_step` apart.
void multiply_add_rows(float* __restrict total, int64_t rows, const float* x, int64_t x_step, const float* factors, int64_t row_step,
                       int64_t n) {
  float factor[kGroup] = {};
  for (int64_t r = 0; r < rows; ++r) factor[r] = factors[r * row_step];
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i * x_step];
    for (int64_t r = 0; r < kGroup; ++r) total[i * kGroup + r] += v * factor[r];
  }
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

const float* floats_of(const Tensor& t) { return reinterpret_cast<const float*>(t.bytes.data()); }

}  // namespace

// The rows of a group are computed when the first of them is asked for, and kept for the others.
void BlockMachine::sum_of_products(const FoldCode& f) {
  float* total = floats(f.totals[0]);
  if (!f.grouped) return sum_rows(f, total, 1);
  Kept& kept = kept_[static_cast<size_t>(&f - program_.folds.data())];
  const size_t group = static_cast<size_t>(program_.group);
  const int64_t now = point_[group], first = now / kGroup * kGroup;
  key_.assign(point_.begin(), point_.begin() + static_cast<ptrdiff_t>(program_.map_dims));
  key_[group] = first;
  key_.push_back(lanes_);
  if (key_ != kept.key) {
    kept.rows.resize(static_cast<size_t>(kGroup * max_lanes_));
    point_[group] = first;
    sum_rows(f, kept.rows.data(), std::min(kGroup, extent(program_.group) - first));
    point_[group] = now;
    kept.key = key_;
  }
  const float* row = kept.rows.data() + (now - first);
  for (int64_t i = 0; i < lanes_; ++i) total[i] = row[i * kGroup];
}

// Inline are the parts of the loop over points: code for shared libraries calls other members by way of a table.
inline std::pair<int64_t, int64_t> BlockMachine::lanes_that_count(const FoldCode& f, int64_t k, int64_t lanes) const {
  const size_t inner = static_cast<size_t>(f.dims.back());
  int64_t first = 0, last = lanes;
  for (size_t c = 0; c < bounds_.size(); ++c) {
    const int64_t v = bounds_[c] + k * f.conditions[c].k[inner], step = lanes == 1 ? 0 : lane_step(f.conditions[c]);
    if (step == 0) { if (v < 0) last = 0; }
    else if (step == 1) first = std::max(first, -v);
    else if (step == -1) last = std::min(last, v + 1);
    else if (step > 0) first = std::max(first, -floor_quotient(v, step));
    else last = std::min(last, floor_quotient(v, -step) + 1);
  }
  return {first, last};
}

// Whether lanes first .. last read inside of their arrays; else the fault is set.
inline bool BlockMachine::edges_hold(const FoldCode& f, int64_t k, int64_t first, int64_t last) {
  const size_t inner = static_cast<size_t>(f.dims.back());
  for (const Edge& e : edges_) {
    const int64_t step = lane_step(*e.index), v = e.base + k * e.index->k[inner];
    const int64_t low = v + step * first, high = v + step * (last - 1), limit = e.access->extents[e.axis];
    if (std::min(low, high) >= 0 && std::max(low, high) < limit) continue;
    fault(*e.access, e.axis, low < 0 || low >= limit ? low : high);
    return false;
  }
  return true;
}

// The innermost folded dim.
inline void BlockMachine::add_products(const FoldCode& f, float* total, int64_t rows) {
  const size_t inner = static_cast<size_t>(f.dims.back());
  const int64_t n = count(f.totals[0]);
  const int64_t x_step = lane_step(f.x.linear), y_step = lane_step(f.y.linear);
  const int64_t x_inner = f.x.linear.k[inner], y_inner = f.y.linear.k[inner];
  const int64_t row_step = f.grouped ? (f.x_is_vector ? f.y : f.x).linear.k[static_cast<size_t>(program_.group)] : 0;
  const float *x_array = floats_of(arrays_[f.x.array]), *y_array = floats_of(arrays_[f.y.array]);
  const int64_t x_first = value_of(f.x.linear), y_first = value_of(f.y.linear);
  for (size_t c = 0; c < bounds_.size(); ++c) bounds_[c] = value_of(f.conditions[c]);
  for (Edge& e : edges_) e.base = value_of(*e.index);
  for (int64_t k = 0, end = program_.extents[inner]; k < end; ++k) {
    const auto [first, last] = lanes_that_count(f, k, n);
    if (first >= last) continue;
    if (!edges_hold(f, k, first, last)) return;
    const float *x = x_array + (x_first + k * x_inner + first * x_step), *y = y_array + (y_first + k * y_inner + first * y_step);
    if (!f.grouped) multiply_add(total + first, x, x_step, y, y_step, last - first);
    else if (f.x_is_vector) multiply_add_rows(total + first * kGroup, rows, x, x_step, y, row_step, last - first);
    else multiply_add_rows(total + first * kGroup, rows, y, y_step, x, row_step, last - first);
  }
}

// Sums over all folded dims of `rows` rows (of one, unless the fold is grouped).
void BlockMachine::sum_rows(const FoldCode& f, float* total, int64_t rows) {
  std::fill_n(total, count(f.totals[0]) * (f.grouped ? kGroup : 1), 0.0f);
  for (int d : f.dims) {
    if (extent(d) <= 0) return;
    point_[static_cast<size_t>(d)] = 0;
  }
  edges_.clear();
  for (const AccessCode* c : {&f.x, &f.y})
    for (size_t i = 0; i < c->axes.size(); ++i)
      if (!c->axes[i].inside) edges_.push_back({c, i, &c->axes[i].at, 0});
  bounds_.resize(f.conditions.size());
  for (;;) {
    add_products(f, total, rows);
    if (fault_.failed) return;
    size_t k = f.dims.size() - 1;
    for (; k > 0; --k) {
      const int d = f.dims[k - 1];
      int64_t& at = point_[static_cast<size_t>(d)];
      if (++at < extent(d)) break;
      at = 0;
    }
    if (k == 0) return;
  }
}

}  // namespace mlc::nest
