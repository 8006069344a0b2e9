#include "packager/passes/pack.h"

#include <cstring>

namespace mlc::passes {
namespace {

// Where each index of an axis lies: a sum over the pieces of that axis, since pieces of different axes are independent.
std::vector<std::vector<uint64_t>> offsets_by_axis(const nest::Layout& layout, const std::vector<uint64_t>& shape, uint64_t& stored) {
  const size_t count = layout.pieces.size();
  std::vector<uint64_t> extent(count), stride(count);
  for (size_t k = 0; k < count; ++k) {
    const nest::Piece& piece = layout.pieces[k];
    const uint64_t divisor = static_cast<uint64_t>(piece.divisor);
    extent[k] = piece.extent ? static_cast<uint64_t>(piece.extent) : (shape[piece.axis] + divisor - 1) / divisor;
  }
  stored = 1;
  for (size_t k = count; k-- > 0;) {
    stride[k] = stored;
    stored *= extent[k];
  }
  std::vector<std::vector<uint64_t>> offsets(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    offsets[axis].assign(shape[axis], 0);
    for (size_t k = 0; k < count; ++k) {
      const nest::Piece& piece = layout.pieces[k];
      if (piece.axis != axis) continue;
      for (uint64_t i = 0; i < shape[axis]; ++i) {
        const uint64_t part = i / static_cast<uint64_t>(piece.divisor);
        offsets[axis][i] += (piece.extent ? part % static_cast<uint64_t>(piece.extent) : part) * stride[k];
      }
    }
  }
  return offsets;
}

template <class T>
void scatter(const std::byte* from, std::byte* to, const std::vector<std::vector<uint64_t>>& offsets, const std::vector<uint64_t>& shape) {
  const size_t rank = shape.size();
  const std::vector<uint64_t>& last = offsets[rank - 1];
  std::vector<uint64_t> index(rank, 0);
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  for (;;) {
    uint64_t base = 0;
    for (size_t axis = 0; axis + 1 < rank; ++axis) base += offsets[axis][index[axis]];
    for (uint64_t offset : last) target[base + offset] = *source++;
    size_t axis = rank - 1;
    do {
      if (axis == 0) return;
      --axis;
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    } while (true);
  }
}

}  // namespace

std::vector<std::byte> pack(const nest::Array& array) {
  const Bytes source = array.data->bytes;
  if (array.layout.is_row_major() || array.shape.empty()) return {source.begin(), source.end()};
  std::vector<uint64_t> shape;
  uint64_t elements = 1, stored = 0;
  for (const ir::Expr* extent : array.shape) {
    shape.push_back(static_cast<uint64_t>(extent->i));
    elements *= shape.back();
  }
  const auto offsets = offsets_by_axis(array.layout, shape, stored);
  const unsigned width = bytes_of(array.dtype);
  std::vector<std::byte> packed(stored * width);
  if (elements == 0) return packed;
  switch (width) {
    case 1: scatter<uint8_t>(source.data(), packed.data(), offsets, shape); break;
    case 2: scatter<uint16_t>(source.data(), packed.data(), offsets, shape); break;
    case 4: scatter<uint32_t>(source.data(), packed.data(), offsets, shape); break;
    default: scatter<uint64_t>(source.data(), packed.data(), offsets, shape); break;
  }
  return packed;
}

}  // namespace mlc::passes
