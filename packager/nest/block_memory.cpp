// Loads and stores. A row of lanes that lies inside along every axis is read and written in one loop; else each lane
// looks for itself, and one outside is a fault where its mask says that the read is wanted.
#include <algorithm>
#include <bit>
#include <cstring>

#include "packager/nest/block_machine.h"

namespace mlc::nest {

using ir::Scalar;

namespace {

template <class T, class To>
void read_strided(const std::byte* base, int64_t element, int64_t step, int64_t n, To* dst) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, base + (element + i * step) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    dst[i] = v;
  }
}

// Halves as floats, in vectors.
void read_halves(const std::byte* base, int64_t element, int64_t step, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h;
    std::memcpy(&h, base + (element + i * step) * 2, 2);
    const uint32_t rest = h & 0x7fffu, sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f);
    dst[i] = std::bit_cast<float>(sign | finite | (rest >= 0x7c00u ? 0x7f800000u : 0));
  }
}

}  // namespace

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

void BlockMachine::load(const AccessCode& c, int dst) {
  const int64_t n = count(dst);
  if (c.all_affine && row_inside(c, n)) return load_row(c, dst);
  const std::byte* base = arrays_[c.array].bytes.data();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t e = element(c, i, is_read(c, dst, i));
    if (fault_.failed) return;
    set(dst, i, e < 0 ? Scalar{} : ir::load_element(c.dtype, base, static_cast<uint64_t>(e)));
  }
}

void BlockMachine::load_row(const AccessCode& c, int dst) {
  const std::byte* base = arrays_[c.array].bytes.data();
  const int64_t n = count(dst), first = value_of(c.linear), step = lane_step(c.linear);
  switch (c.dtype) {
    case DType::F32:
      if (step == 1) std::memcpy(floats(dst), base + first * 4, static_cast<size_t>(n) * 4);
      else read_strided<float>(base, first, step, n, floats(dst));
      return;
    case DType::I64: return read_strided<int64_t>(base, first, step, n, ints(dst));
    case DType::I32: return read_strided<int32_t>(base, first, step, n, ints(dst));
    case DType::I8: return read_strided<int8_t>(base, first, step, n, ints(dst));
    case DType::F16: return read_halves(base, first, step, n, floats(dst));
    case DType::U8: return read_strided<uint8_t>(base, first, step, n, ints(dst));
    default:
      for (int64_t i = 0; i < n; ++i) set(dst, i, ir::load_element(c.dtype, base, static_cast<uint64_t>(first + i * step)));
  }
}

void BlockMachine::store(size_t write) {
  const AccessCode& c = program_.stores[write];
  std::byte* base = arrays_[c.array].bytes.data();
  const int value = program_.values[write];
  const bool masked = !all(program_.where_reg), push = program_.pushes[write];
  if (!push && !masked && c.dtype == DType::F32 && c.all_affine && row_inside(c, lanes_)) {
    const int64_t first = value_of(c.linear), step = lane_step(c.linear);
    for (int64_t i = 0; i < lanes_; ++i) std::memcpy(base + (first + i * step) * 4, floats(value) + i, 4);
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
