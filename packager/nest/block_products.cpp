// Sums of products of two factors, both affine, under affine conditions: no instructions, but loops that step through memory.
// The lanes are the inner loop, or, where only one operand varies along them, lanes by kGroup rows of another map dim.
#include <algorithm>
#include <type_traits>

#include "packager/nest/block_machine.h"

namespace mlc::nest {

namespace {

// total[i] += x[i * x_step] * y[i * y_step]: rounded twice, as two operations of expr.h are.
template <class T>
void multiply_add(T* total, const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n) {
  if (x_step == 1 && y_step == 0) {
    const T factor = *y;
    for (int64_t i = 0; i < n; ++i) total[i] += x[i] * factor;
  } else if (x_step == 0 && y_step == 1) {
    const T factor = *x;
    for (int64_t i = 0; i < n; ++i) total[i] += factor * y[i];
  } else if (x_step == 1 && y_step == 1) {
    for (int64_t i = 0; i < n; ++i) total[i] += x[i] * y[i];
  } else {
    for (int64_t i = 0; i < n; ++i) total[i] += x[i * x_step] * y[i * y_step];
  }
}

// The same for kGroup rows at once, total[lane][row]: each row has a factor of its own.
template <class T>
void multiply_add_rows(T* __restrict total, const T* x, int64_t x_step, const T* factors, int64_t n) {
  T factor[kGroup];
  std::copy_n(factors, kGroup, factor);
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i * x_step];
    for (int64_t r = 0; r < kGroup; ++r) total[i * kGroup + r] += v * factor[r];
  }
}

template <class T>
T number(const ir::Scalar& s) {
  return std::is_floating_point_v<T> ? static_cast<T>(s.f) : static_cast<T>(s.i);
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

}  // namespace

void BlockMachine::sum_of_products(const FoldCode& f) {
  with_sum(*f.multiply_add, [&]<class T>(T) {
    const int64_t n = count(f.totals[0]);
    const T* total = sums_of_row<T>(f);
    for (int64_t i = 0; i < n; ++i) set_sum(f.totals[0], i, total[i * (f.grouped ? kGroup : 1)]);
  });
  wrap(f.wide, f.totals[0]);
}

// The rows of a group are computed when the first of them is asked for, and kept for the others.
template <class T>
const T* BlockMachine::sums_of_row(const FoldCode& f) {
  Kept& kept = kept_[static_cast<size_t>(&f - program_.folds.data())];
  std::vector<T>& sums = std::get<std::vector<T>>(kept.sums);
  sums.resize(static_cast<size_t>((f.grouped ? kGroup : 1) * max_lanes_));
  if (!f.grouped) {
    sum_rows(f, sums.data(), 1);
    return sums.data();
  }
  const size_t group = static_cast<size_t>(program_.group);
  const int64_t now = point_[group], first = now / kGroup * kGroup;
  key_.assign(point_.begin(), point_.begin() + static_cast<ptrdiff_t>(program_.map_dims));
  key_[group] = first;
  key_.push_back(lanes_);
  if (key_ != kept.key) {
    point_[group] = first;
    sum_rows(f, sums.data(), std::min(kGroup, extent(program_.group) - first));
    point_[group] = now;
    kept.key = key_;
  }
  return sums.data() + (now - first);
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

// `n` values of a factor, where its load stands at element `of`, and what is less at element `less`, along the dim `slot` (-1: one
// value for all). Where they lie in memory as they are wanted they are not copied.
template <class T>
inline const T* BlockMachine::factors(const FactorCode& f, int64_t of, int64_t less, int slot, int64_t n, std::vector<T>& memory, int64_t& step) {
  const auto along = [slot](const AccessCode& c) { return slot < 0 ? 0 : c.linear.k[static_cast<size_t>(slot)]; };
  const Row row{arrays_[f.of.array].bytes.data(), f.of.dtype, of, along(f.of)};
  const bool whole = !f.less && !f.constant;
  if (whole && is_stored_as<T>(row.dtype)) {
    step = row.step;
    return reinterpret_cast<const T*>(row.base) + of;
  }
  step = row.step != 0 || (f.less && along(*f.less) != 0) ? 1 : 0;
  if (step == 0) n = 1;
  T* values = memory.data();
  read_row(row, n, values);
  if (f.constant) {
    const T by = number<T>(*f.constant);
    for (int64_t i = 0; i < n; ++i) values[i] -= by;
  } else if (f.less) {
    T* by = values + memory.size() / 2;
    read_row(Row{arrays_[f.less->array].bytes.data(), f.less->dtype, less, along(*f.less)}, n, by);
    for (int64_t i = 0; i < n; ++i) values[i] -= by[i];
  }
  return values;
}

// The innermost folded dim.
template <class T>
void BlockMachine::add_products(const FoldCode& f, T* total, int64_t rows) {
  const size_t inner = static_cast<size_t>(f.dims.back());
  const int64_t n = count(f.totals[0]);
  // Elements at the first lane and of the first step, and how far the next step is from there.
  struct At {
    const FactorCode& code;
    int64_t of, less, of_step, less_step, of_lane, less_lane;
  };
  const auto at = [&](const FactorCode& c) {
    const bool less = c.less.has_value();
    return At{c, value_of(c.of.linear), less ? value_of(c.less->linear) : 0, c.of.linear.k[inner], less ? c.less->linear.k[inner] : 0,
              lane_step(c.of.linear), less ? lane_step(c.less->linear) : 0};
  };
  const At x = at(f.grouped && !f.x_is_vector ? f.y : f.x), y = at(f.grouped && !f.x_is_vector ? f.x : f.y);
  std::vector<T> &x_memory = std::get<std::vector<T>>(x_factors_), &y_memory = std::get<std::vector<T>>(y_factors_);
  x_memory.resize(static_cast<size_t>(2 * max_lanes_));
  y_memory.resize(static_cast<size_t>(2 * std::max(max_lanes_, kGroup)));
  T of_rows[kGroup] = {};
  for (size_t c = 0; c < bounds_.size(); ++c) bounds_[c] = value_of(f.conditions[c]);
  for (Edge& e : edges_) e.base = value_of(*e.index);
  for (int64_t k = 0, end = program_.extents[inner]; k < end; ++k) {
    const auto [first, last] = lanes_that_count(f, k, n);
    if (first >= last) continue;
    if (!edges_hold(f, k, first, last)) return;
    int64_t x_step = 0, y_step = 0;
    const T* xs = factors<T>(x.code, x.of + k * x.of_step + first * x.of_lane, x.less + k * x.less_step + first * x.less_lane, program_.lane, last - first,
                             x_memory, x_step);
    const int along = f.grouped ? program_.group : program_.lane;
    const int64_t from = f.grouped ? 0 : first;
    const T* ys = factors<T>(y.code, y.of + k * y.of_step + from * y.of_lane, y.less + k * y.less_step + from * y.less_lane, along,
                             f.grouped ? rows : last - first, y_memory, y_step);
    if (!f.grouped) {
      multiply_add(total + first, xs, x_step, ys, y_step, last - first);
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) of_rows[r] = ys[r * y_step];
    multiply_add_rows(total + first * kGroup, xs, x_step, of_rows, last - first);
  }
}

// Sums over all folded dims of `rows` rows (of one, unless the fold is grouped).
template <class T>
void BlockMachine::sum_rows(const FoldCode& f, T* total, int64_t rows) {
  std::fill_n(total, count(f.totals[0]) * (f.grouped ? kGroup : 1), T{});
  for (int d : f.dims) {
    if (extent(d) <= 0) return;
    point_[static_cast<size_t>(d)] = 0;
  }
  edges_.clear();
  for (const AccessCode* c : {&f.x.of, &f.y.of})
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
