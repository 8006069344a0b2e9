#include "packager/passes/weights/pack.h"

#include <algorithm>
#include <cstring>

namespace mlc::passes {

std::vector<std::byte> pack(const nest::Array& array) {
  const size_t rank = array.shape.size(), size = bytes_of(array.dtype);
  nest::Layout layout = array.layout.pieces.empty() ? nest::row_major(static_cast<unsigned>(rank)) : array.layout;
  std::vector<int64_t> shape, stride(rank, 1);
  for (const ir::Expr* e : array.shape) shape.push_back(e->i);
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  const std::vector<nest::Piece>& pieces = layout.pieces;
  std::vector<int64_t> extent;
  int64_t total = 1;
  for (const nest::Piece& p : pieces) {
    extent.push_back(p.extent ? p.extent : (shape[p.axis] + p.divisor - 1) / p.divisor);
    total *= extent.back();
  }
  std::vector<std::byte> out(static_cast<size_t>(total) * size);
  const std::byte* data = array.data->bytes.data();
  if (total == 0) return out;
  if (rank == 0) {
    std::memcpy(out.data(), data, size);
    return out;
  }
  // Rows along the innermost piece; the others run like an odometer, and `index` holds the axes' indices of the row.
  const nest::Piece& inner = pieces.back();
  const int64_t row = extent.back(), step = inner.divisor * stride[inner.axis];
  std::vector<int64_t> at(pieces.size(), 0), index(rank, 0);
  for (std::byte* to = out.data(); to != out.data() + out.size(); to += static_cast<size_t>(row) * size) {
    int64_t from = 0;
    bool inside = true;
    for (size_t a = 0; a < rank; ++a) {
      from += index[a] * stride[a];
      inside = inside && (a == inner.axis || index[a] < shape[a]);
    }
    if (inside) {
      int64_t valid = (shape[inner.axis] - index[inner.axis] + inner.divisor - 1) / inner.divisor;
      valid = std::clamp<int64_t>(valid, 0, row);
      if (step == 1) {
        std::memcpy(to, data + static_cast<size_t>(from) * size, static_cast<size_t>(valid) * size);
      } else if (size == 4) {
        for (int64_t i = 0; i < valid; ++i) std::memcpy(to + i * 4, data + (from + i * step) * 4, 4);
      } else {
        for (int64_t i = 0; i < valid; ++i)
          std::memcpy(to + static_cast<size_t>(i) * size, data + static_cast<size_t>(from + i * step) * size, size);
      }
    }
    for (size_t p = pieces.size() - 1; p-- > 0;) {
      index[pieces[p].axis] += pieces[p].divisor;
      if (++at[p] < extent[p]) break;
      index[pieces[p].axis] -= at[p] * pieces[p].divisor;
      at[p] = 0;
    }
  }
  return out;
}

}  // namespace mlc::passes
