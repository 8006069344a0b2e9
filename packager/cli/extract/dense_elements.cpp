#include "packager/cli/extract/dense_elements.h"

#include <algorithm>
#include <cstring>

namespace mlc::cli {
namespace {

// How far apart two elements lie that are one apart along an axis: within a block of `divisor`, and from block to block.
struct AxisStrides {
  uint64_t divisor = 1, block = 0, inner = 0;
};

// The k-th constant that is not 1 runs over the remainder of the k-th axis that is divided.
Result<std::vector<AxisStrides>> strides_of(const format::ParsedLayout& layout, std::span<const uint64_t> shape) {
  std::vector<AxisStrides> axes(shape.size());
  uint64_t stride = 1;
  if (layout.dense) {
    for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) axes[axis].block = stride;
    return axes;
  }
  std::vector<size_t> divided;
  for (const format::LayoutFactor& factor : layout.factors)
    if (factor.dim >= 0 && factor.number > 1) divided.push_back(static_cast<size_t>(factor.dim));
  size_t constant = static_cast<size_t>(std::count_if(layout.factors.begin(), layout.factors.end(), [](const format::LayoutFactor& f) { return f.dim < 0 && f.number > 1; }));
  if (constant != divided.size()) return Status(Code::Internal, "a layout with {} divided axes and {} constants", divided.size(), constant);
  for (size_t k = layout.factors.size(); k-- > 0;) {
    const format::LayoutFactor& factor = layout.factors[k];
    if (factor.dim >= 0) {
      AxisStrides& axis = axes[static_cast<size_t>(factor.dim)];
      axis.divisor = factor.number;
      axis.block = stride;
      const uint64_t extent = shape[static_cast<size_t>(factor.dim)];
      stride *= extent / factor.number + (extent % factor.number != 0);
    } else if (factor.number > 1) {
      axes[divided[--constant]].inner = stride;
      stride *= factor.number;
    }
  }
  return axes;
}

// Element `index` of those that are contiguous, the first in the low bits.
std::byte small_element(DType dtype, Bytes stored, uint64_t index) {
  const unsigned bits = bits_of(dtype);
  const uint64_t at = index * bits;
  unsigned both = std::to_integer<unsigned>(stored[at / 8]);
  if (at % 8 + bits > 8) both |= std::to_integer<unsigned>(stored[at / 8 + 1]) << 8;
  unsigned value = both >> at % 8 & ((1u << bits) - 1);
  if (is_signed_int(dtype) && (value >> (bits - 1)) != 0) value |= 0xFFu << bits & 0xFF;
  return static_cast<std::byte>(value);
}

}  // namespace

Result<std::vector<std::byte>> dense_elements(const format::ParsedLayout& layout, DType dtype, std::span<const uint64_t> shape, Bytes stored) {
  MLC_ASSIGN(const uint64_t expected, format::stored_bytes(layout, dtype, shape));
  const auto count = checked_product(shape), bytes = count ? checked_mul(*count, bytes_of(dtype)) : std::nullopt;
  if (!bytes || stored.size() != expected) return Status(Code::Malformed, "{} bytes of a tensor found, {} expected", stored.size(), expected);
  MLC_ASSIGN(const std::vector<AxisStrides> axes, strides_of(layout, shape));
  std::vector<std::byte> out(*bytes);
  const size_t width = bytes_of(dtype);
  std::vector<uint64_t> index(shape.size());
  for (uint64_t k = 0; k < *count; ++k) {
    uint64_t at = 0;
    for (size_t axis = 0; axis < axes.size(); ++axis) at += index[axis] / axes[axis].divisor * axes[axis].block + index[axis] % axes[axis].divisor * axes[axis].inner;
    if (bits_of(dtype) < 8) out[k] = small_element(dtype, stored, at);
    else std::memcpy(out.data() + k * width, stored.data() + at * width, width);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
  return out;
}

}  // namespace mlc::cli
