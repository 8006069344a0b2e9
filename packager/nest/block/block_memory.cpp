// Loads and stores. A row of lanes that lies inside along every axis is read and written in one loop; else each lane
// looks for itself, and one outside is a fault where its mask says that the read is wanted.
#include <algorithm>
#include <cstring>

#include "packager/nest/block/block_machine.h"

namespace mlc::nest {

using ir::Scalar;

void BlockMachine::fault(const AccessCode& c, size_t axis, int64_t index) {
  const bool known = c.array < function_.arrays.size();
  const std::string name = known ? function_.arrays[c.array].name : "array " + std::to_string(c.array);
  fault_.set(c.fault_is_bug, index_fault(name, axis, index, c.extents[axis]));
}

// Whether every lane lies inside along every axis.
inline bool BlockMachine::row_inside(const AccessCode& c, int64_t lanes) const {
  for (size_t i = 0; i < c.axes.size(); ++i) {
    const AxisIndex& a = c.axes[i];
    if (a.inside) continue;
    const int64_t first = value_of(a.at), last = first + lane_step(a.at) * (lanes - 1);
    if (std::min(first, last) < 0 || std::max(first, last) >= c.extents[i]) return false;
  }
  return true;
}

// Element of one lane, or -1 if outside.
inline int64_t BlockMachine::element(const AccessCode& c, int64_t lane, bool active) {
  int64_t e = 0;
  for (size_t i = 0; i < c.axes.size(); ++i) {
    const AxisIndex& a = c.axes[i];
    const int64_t x = a.affine ? value_of(a.at) + lane_step(a.at) * lane : ints(a.reg)[uniform(a.reg) ? 0 : lane];
    if (x < 0 || x >= c.extents[i]) {
      if (active) fault(c, i, x);
      return -1;
    }
    e += x * c.strides[i];
  }
  return e;
}

// Whether the mask wants what this lane reads. What is read for all lanes at once is wanted if any of them wants it.
inline bool BlockMachine::is_read(const AccessCode& c, int dst, int64_t lane) {
  if (c.mask < 0) return true;
  return uniform(c.mask) || uniform(dst) ? any(c.mask) : ints(c.mask)[lane] != 0;
}

// Lanes [first, second) that lie inside along every axis, of a row that is affine.
std::pair<int64_t, int64_t> BlockMachine::lanes_inside(const AccessCode& c, int64_t lanes) const {
  const auto floor_quotient = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); };  // b > 0
  int64_t first = 0, last = lanes;
  for (size_t i = 0; i < c.axes.size(); ++i) {
    const int64_t v = value_of(c.axes[i].at), step = lane_step(c.axes[i].at), extent = c.extents[i];
    if (c.axes[i].inside) continue;
    if (step == 0 && (v < 0 || v >= extent)) return {0, 0};
    if (step > 0) first = std::max(first, -floor_quotient(v, step)), last = std::min(last, -floor_quotient(v - extent, step));
    if (step < 0) first = std::max(first, floor_quotient(v - extent, -step) + 1), last = std::min(last, floor_quotient(v, -step) + 1);
  }
  return {first, std::max(first, last)};
}

void BlockMachine::load(const AccessCode& c, int dst) {
  const int64_t n = count(dst);
  if (!c.all_affine) return load_each(c, dst);
  if (row_inside(c, n)) return load_row(c, dst, 0, n);
  const auto [first, last] = lanes_inside(c, n);
  for (int64_t i = 0; i < n; ++i) {
    if (i == first) i = last;
    if (i >= n) break;
    element(c, i, is_read(c, dst, i));  // outside: at most a fault
    if (fault_.failed) return;
    set(dst, i, Scalar{});
  }
  if (first < last) load_row(c, dst, first, last);
}

// Lane by lane: some index is computed. What the mask does not want is 0.
void BlockMachine::load_each(const AccessCode& c, int dst) {
  const std::byte* base = arrays_[c.array].bytes.data();
  const int64_t n = count(dst);
  const int64_t* mask = c.mask >= 0 && !uniform(c.mask) && !uniform(dst) ? ints(c.mask) : nullptr;
  const bool single = c.dtype == DType::F32;
  starts_.resize(c.axes.size());
  for (size_t k = 0; k < c.axes.size(); ++k) starts_[k] = c.axes[k].affine ? value_of(c.axes[k].at) : 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t e = mask && !mask[i] ? -1 : 0;
    for (size_t k = 0; k < c.axes.size() && e >= 0; ++k) {
      const AxisIndex& a = c.axes[k];
      const int64_t x = a.affine ? starts_[k] + lane_step(a.at) * i : ints(a.reg)[uniform(a.reg) ? 0 : i];
      e = x < 0 || x >= c.extents[k] ? -2 : e + x * c.strides[k];
    }
    if (e == -2) element(c, i, is_read(c, dst, i));
    if (fault_.failed) return;
    if (e < 0) set(dst, i, Scalar{});
    else if (single) std::memcpy(floats(dst) + i, base + e * 4, 4);
    else if (kind(dst) == Register::F32) read_row(Row{base, c.dtype, e, 0}, 1, floats(dst) + i);
    else set(dst, i, ir::load_element(c.dtype, base, static_cast<uint64_t>(e)));
  }
}

// Lanes begin .. end, which lie inside.
void BlockMachine::load_row(const AccessCode& c, int dst, int64_t begin, int64_t end) {
  const std::byte* base = arrays_[c.array].bytes.data();
  const int64_t n = end - begin, step = lane_step(c.linear), first = value_of(c.linear) + begin * step;
  const Row row{base, c.dtype, first, step};
  switch (kind(dst)) {
    case Register::F32: return read_row(row, n, floats(dst) + begin);
    case Register::F64: return read_row(row, n, doubles(dst) + begin);
    case Register::Int: return read_row(row, n, reinterpret_cast<uint64_t*>(ints(dst)) + begin);
  }
}

void BlockMachine::store(size_t write) {
  const AccessCode& c = program_.stores[write];
  std::byte* base = arrays_[c.array].bytes.data();
  const int value = program_.values[write];
  const bool masked = !all(program_.where_reg), push = program_.pushes[write];
  if (!push && !masked && c.all_affine && row_inside(c, lanes_)) {
    const int64_t first = value_of(c.linear), step = lane_step(c.linear);
    const int64_t n = lanes_;
    if (c.dtype == DType::F32) {
      const float* from = floats(value);
      if (step == 1) std::memcpy(base + first * 4, from, static_cast<size_t>(n) * 4);
      else for (int64_t i = 0; i < n; ++i) std::memcpy(base + (first + i * step) * 4, from + i, 4);
    } else if (c.dtype == DType::U8 || c.dtype == DType::I8) {
      const int64_t* from = ints(value);
      for (int64_t i = 0; i < n; ++i) base[first + i * step] = static_cast<std::byte>(from[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) ir::store_element(c.dtype, base, static_cast<uint64_t>(first + i * step), get(value, i));
    }
    return;
  }
  const ir::Join join = program_.joins[write];
  for (int64_t i = 0; i < lanes_; ++i) {
    if (masked && !ints(program_.where_reg)[i]) continue;
    const int64_t e = element(c, i, true);
    if (fault_.failed) return;
    const uint64_t at = static_cast<uint64_t>(e);
    Scalar v = get(value, i);
    if (push && join != ir::Join::Last) v = ir::apply_binary(op_of(join), c.dtype, ir::load_element(c.dtype, base, at), v);
    ir::store_element(c.dtype, base, at, v);
  }
}

}  // namespace mlc::nest
