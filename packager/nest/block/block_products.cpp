// Sums of products of two factors, both affine, under affine conditions: no instructions, but loops that step through memory.
// The lanes are the inner loop. Where only one operand varies along them, and only the other along another map dim, rows of that dim are
// computed together: what some steps multiply is brought into panels, of which tiles are multiplied (block_tile.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "packager/nest/block/block_machine.h"
#include "packager/nest/block/block_tile.h"

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

template <class T>
T number(const ir::Scalar& s) {
  return std::is_floating_point_v<T> ? static_cast<T>(s.f) : static_cast<T>(s.i);
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

// Steps that are brought into panels before they are multiplied, and rows of a group that are computed together at most: panels and sums
// stay in a cache of half a megabyte.
constexpr int64_t kSteps = 256, kMostRows = 128;

int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

void BlockMachine::sum_of_products(const FoldCode& f) {
  with_sum(*f.multiply_add, [&]<class T>(T) {
    const int64_t n = count(f.totals[0]);
    const T* total = sums_of_row<T>(f);
    for (int64_t i = 0; i < n; ++i) set_sum(f.totals[0], i, total[i]);
  });
  wrap(f.wide, f.totals[0]);
}

// The rows of a group are computed when the first of them is asked for, and kept for the others.
template <class T>
const T* BlockMachine::sums_of_row(const FoldCode& f) {
  Kept& kept = kept_[static_cast<size_t>(&f - program_.folds.data())];
  std::vector<T>& sums = std::get<std::vector<T>>(kept.sums);
  if (!f.grouped) {
    sums.assign(static_cast<size_t>(max_lanes_), T{});
    sum_rows(f, sums.data(), 1);
    return sums.data();
  }
  const size_t group = static_cast<size_t>(program_.group);
  const int64_t now = point_[group], width = rounded_up(lanes_, kUnit<T>);
  key_.assign(point_.begin(), point_.begin() + static_cast<ptrdiff_t>(program_.map_dims));
  key_[group] = 0;
  key_.push_back(lanes_);
  if (key_ != kept.key || now < kept.first || now >= kept.first + kept.rows) {
    kept.key = key_;
    kept.first = now;
    kept.rows = std::min(rows_ahead_, kMostRows);
    sums.assign(static_cast<size_t>(rounded_up(kept.rows, kTileRows) * width), T{});
    sum_rows(f, sums.data(), kept.rows);
  }
  return sums.data() + (now - kept.first) * width;
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
// value for all). Where they are stored in memory as they are wanted they are not copied.
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

// Elements at the first lane, where the folded dims stand.
inline BlockMachine::At BlockMachine::at(const FactorCode& f) const { return {value_of(f.of.linear), f.less ? value_of(f.less->linear) : 0}; }

// `n` values along the lanes from the `first` on, at step `k` of the folded dim `inner` from `from`.
template <class T>
inline const T* BlockMachine::lanes_of(const FactorCode& f, const At& from, size_t inner, int64_t k, int64_t first, int64_t n, std::vector<T>& memory,
                                       int64_t& step) {
  const auto element = [&](const AccessCode& c, int64_t at) { return at + k * c.linear.k[inner] + first * lane_step(c.linear); };
  return factors<T>(f, element(f.of, from.of), f.less ? element(*f.less, from.less) : 0, program_.lane, n, memory, step);
}

// The innermost folded dim, of one row.
template <class T>
void BlockMachine::add_products(const FoldCode& f, T* total) {
  const size_t inner = static_cast<size_t>(f.dims.back());
  const int64_t n = count(f.totals[0]);
  const At x = at(f.x), y = at(f.y);
  for (int64_t k = 0, end = program_.extents[inner]; k < end; ++k) {
    const auto [first, last] = lanes_that_count(f, k, n);
    if (first >= last) continue;
    if (!edges_hold(f, k, first, last)) return;
    int64_t x_step = 0, y_step = 0;
    const T* xs = lanes_of<T>(f.x, x, inner, k, first, last - first, std::get<std::vector<T>>(x_factors_), x_step);
    const T* ys = lanes_of<T>(f.y, y, inner, k, first, last - first, std::get<std::vector<T>>(y_factors_), y_step);
    multiply_add(total + first, xs, x_step, ys, y_step, last - first);
  }
}

// The innermost folded dim of a grouped sum: its steps go to the panels, which are multiplied whenever they are full.
template <class T>
void BlockMachine::gather_products(const FoldCode& f, T* total, int64_t rows) {
  const size_t inner = static_cast<size_t>(f.dims.back());
  const FactorCode& vector = f.x_is_vector ? f.x : f.y;
  const At x = at(vector);
  const int64_t n = lanes_, width = rounded_up(n, kUnit<T>);
  Panels<T>& panels = std::get<Panels<T>>(panels_);
  for (int64_t k = 0, end = program_.extents[inner]; k < end; ++k) {
    if (panels.lanes.size() == static_cast<size_t>(kSteps)) multiply_panels(f, total, rows);
    auto [first, last] = lanes_that_count(f, k, n);
    if (first >= last) first = last = 0;
    if (first < last && !edges_hold(f, k, first, last)) return;
    int64_t step = 0;
    const T* xs = first < last ? lanes_of<T>(vector, x, inner, k, first, last - first, std::get<std::vector<T>>(x_factors_), step) : nullptr;
    T* to = panels.x.data() + static_cast<int64_t>(panels.lanes.size()) * kUnit<T>;
    for (int64_t lane = 0; lane < width; lane += kUnit<T>, to += kSteps * kUnit<T>) {
      const int64_t begin = std::clamp(lane, first, last), stop = std::clamp(lane + kUnit<T>, first, last);
      if (stop - begin < kUnit<T>) std::fill_n(to, kUnit<T>, T{});
      const T* from = xs + (begin - first) * step;
      if (step == 1) std::copy_n(from, stop - begin, to + (begin - lane));
      else
        for (int64_t i = 0; i < stop - begin; ++i) to[begin - lane + i] = from[i * step];
    }
    panels.lanes.emplace_back(first, last);
    panels.is_partial = panels.is_partial || last - first < n;
  }
}

// The other operand's values of the steps in the panels, as rows: where they lie, if they are evenly apart there, else brought into a panel.
template <class T>
BlockMachine::RowsOf<T> BlockMachine::other_rows(const FoldCode& f, int64_t rows) {
  const FactorCode& y = f.x_is_vector ? f.y : f.x;
  Panels<T>& panels = std::get<Panels<T>>(panels_);
  const size_t inner = static_cast<size_t>(f.dims.back()), group = static_cast<size_t>(program_.group);
  const auto along = [&](const std::optional<AccessCode>& c, size_t d) { return c ? c->linear.k[d] : 0; };
  // Steps one after another that are evenly apart.
  int64_t run = extent(f.dims.back());
  size_t merged = 1;
  for (; merged < f.dims.size(); ++merged) {
    const size_t d = static_cast<size_t>(f.dims[f.dims.size() - 1 - merged]);
    if (y.of.linear.k[d] != run * y.of.linear.k[inner] || along(y.less, d) != run * along(y.less, inner)) break;
    run *= extent(static_cast<int>(d));
  }
  const bool whole = !y.less && !y.constant && is_stored_as<T>(y.of.dtype);
  if (whole && merged == f.dims.size()) {
    const T* first = reinterpret_cast<const T*>(arrays_[y.of.array].bytes.data()) + panels.y_at.of + panels.first_step * y.of.linear.k[inner];
    return {first, y.of.linear.k[group], y.of.linear.k[inner]};
  }
  const int64_t end = panels.first_step + static_cast<int64_t>(panels.lanes.size());
  for (int64_t s = panels.first_step; s < end;) {
    const int64_t n = std::min(end, (s / run + 1) * run) - s;
    At from = panels.y_at;
    int64_t rest = s;
    for (size_t d = f.dims.size(); d-- > 0;) {
      const int64_t at = rest % extent(f.dims[d]);
      rest /= extent(f.dims[d]);
      from.of += at * y.of.linear.k[static_cast<size_t>(f.dims[d])];
      from.less += at * along(y.less, static_cast<size_t>(f.dims[d]));
    }
    for (int64_t r = 0; r < rows; ++r) {
      int64_t step = 0;
      const T* values = factors<T>(y, from.of + r * y.of.linear.k[group], from.less + r * along(y.less, group), f.dims.back(), n, std::get<std::vector<T>>(y_factors_), step);
      T* to = panels.y.data() + r * kSteps + (s - panels.first_step);
      for (int64_t i = 0; i < n; ++i) to[i] = values[i * step];
    }
    s += n;
  }
  return {panels.y.data(), kSteps, 1};
}

// Whether a factor is finite wherever it is read: then a product with 0 adds nothing.
template <class T>
bool BlockMachine::is_finite(const FactorCode& f) {
  if constexpr (!std::is_floating_point_v<T>) return true;
  const double most = static_cast<double>(std::numeric_limits<T>::max()) / 4;  // of what is less as well: the difference is finite
  const auto all = [&](const AccessCode& c) {
    if (!is_float(c.dtype)) return true;
    std::vector<T> values(1024);
    const Tensor& t = arrays_[c.array];
    const int64_t size = std::max<int64_t>(0, t.elements());
    for (int64_t at = 0; at < size; at += 1024) {
      const int64_t n = std::min<int64_t>(1024, size - at);
      read_row(Row{t.bytes.data(), c.dtype, at, 1}, n, values.data());
      if (!std::all_of(values.begin(), values.begin() + n, [&](T v) { return std::fabs(static_cast<double>(v)) <= most; })) return false;
    }
    return true;
  };
  return all(f.of) && (!f.less || all(*f.less)) && (!f.constant || std::fabs(f.constant->f) <= most);
}

// Adds the products of the steps in the panels, which are empty then. Lanes that do not count are 0 there, unless that would show.
template <class T>
void BlockMachine::multiply_panels(const FoldCode& f, T* total, int64_t rows) {
  Panels<T>& panels = std::get<Panels<T>>(panels_);
  const int64_t steps = static_cast<int64_t>(panels.lanes.size()), width = rounded_up(lanes_, kUnit<T>);
  if (steps == 0) return;
  const RowsOf<T> y = other_rows<T>(f, rows);
  std::optional<bool>& finite = finite_[static_cast<size_t>(&f - program_.folds.data())];
  if (panels.is_partial && !finite) finite = is_finite<T>(f.x_is_vector ? f.y : f.x);
  const bool tiles = !panels.is_partial || *finite;
  for (int64_t lane = 0; lane < width; lane += kUnit<T>) {
    const T* x = panels.x.data() + lane * kSteps;
    for (int64_t r = 0; tiles && r < rows; r += kTileRows) {
      Tile<T> tile{total + r * width + lane, width, x, {}, y.step, steps};
      for (int64_t i = 0; i < kTileRows; ++i) tile.y[i] = y.first + std::min(r + i, rows - 1) * y.row;
      add_tile(tile);
    }
    for (int64_t s = 0; !tiles && s < steps; ++s) {
      const auto [first, last] = panels.lanes[static_cast<size_t>(s)];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = std::max(lane, first); i < std::min(lane + kUnit<T>, last); ++i)
          total[r * width + i] += x[s * kUnit<T> + i - lane] * y.first[r * y.row + s * y.step];
    }
  }
  panels.first_step += steps;
  panels.lanes.clear();
  panels.is_partial = false;
}

// Adds to `rows` rows (one, unless the fold is grouped) the sums over all folded dims.
template <class T>
void BlockMachine::sum_rows(const FoldCode& f, T* total, int64_t rows) {
  for (int d : f.dims) {
    if (extent(d) <= 0) return;
    point_[static_cast<size_t>(d)] = 0;
  }
  edges_.clear();
  for (const AccessCode* c : {&f.x.of, &f.y.of})
    for (size_t i = 0; i < c->axes.size(); ++i)
      if (!c->axes[i].inside) edges_.push_back({c, i, &c->axes[i].at, 0});
  bounds_.resize(f.conditions.size());
  for (Numbers* memory : {&x_factors_, &y_factors_}) std::get<std::vector<T>>(*memory).resize(static_cast<size_t>(2 * std::max(max_lanes_, kSteps)));
  if (f.grouped) {
    Panels<T>& panels = std::get<Panels<T>>(panels_);
    panels.x.resize(static_cast<size_t>(kSteps * rounded_up(max_lanes_, kUnit<T>)));
    panels.y.resize(static_cast<size_t>(kSteps * kMostRows));
    panels.lanes.clear();
    panels.is_partial = false;
    panels.first_step = 0;
    panels.y_at = at(f.x_is_vector ? f.y : f.x);
  }
  for (;;) {
    for (size_t c = 0; c < bounds_.size(); ++c) bounds_[c] = value_of(f.conditions[c]);
    for (Edge& e : edges_) e.base = value_of(*e.index);
    if (f.grouped) gather_products(f, total, rows);
    else add_products(f, total);
    if (fault_.failed) return;
    size_t k = f.dims.size() - 1;
    for (; k > 0; --k) {
      const int d = f.dims[k - 1];
      int64_t& at = point_[static_cast<size_t>(d)];
      if (++at < extent(d)) break;
      at = 0;
    }
    if (k == 0) break;
  }
  if (f.grouped) multiply_panels(f, total, rows);
}

}  // namespace mlc::nest
