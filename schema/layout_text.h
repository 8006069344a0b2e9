// The text of a layout: how many elements of a tensor a stored copy holds, and where.
//
//   layout := "dense"                                row-major
//           | name ("," name)* "->" factor+          one name per dimension of the tensor, in its order
//   factor := "[" (name | name "/" number | number) "]"
//
// `[N]` is the extent of N, `[N/16]` that extent divided by 16 and rounded up, `[16]` the constant. Outermost factor
// first; each name stands in exactly one factor. The panels of a MatMul's right operand are `K,N->[N/16][K/1][16][1]`,
// those of a convolution `M,C,U,V->[U][V][M/16][C/1][16][1]`; elements beyond an extent are zero. Which constant
// factor holds the remainder of which name: the k-th constant belongs to the k-th divided name, in textual order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace mlc::format {

struct LayoutFactor {
  int dim = -1;          // index into the tensor's shape; -1: a constant
  uint64_t number = 1;   // the divisor of a dim, or the constant
};

struct ParsedLayout {
  bool dense = false;
  std::vector<std::string> names;      // one per dimension; empty if dense
  std::vector<LayoutFactor> factors;   // outermost first
};

// Checks the grammar, that every name stands in exactly one factor, that numbers are 1..2^31-1, and that the constants
// are, in order, the divisors.
[[nodiscard]] Result<ParsedLayout> parse_layout(std::string_view text);

// Bytes of a copy of a tensor with this type and shape: overflow, a rank that does not match, or a type without a size
// is an error. Elements of 6, 4 and 2 bits are contiguous.
[[nodiscard]] Result<uint64_t> stored_bytes(const ParsedLayout& layout, DType dtype, std::span<const uint64_t> shape);

}  // namespace mlc::format
