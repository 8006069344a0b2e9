// The elements of a copy of a tensor, in row-major order, whatever its layout.
#pragma once

#include <span>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"
#include "schema/layout_text.h"

namespace mlc::cli {

// `stored` has as many bytes as format::stored_bytes says. Elements of less than 8 bits take a byte each in the answer, signed ones with their sign.
[[nodiscard]] Result<std::vector<std::byte>> dense_elements(const format::ParsedLayout& layout, DType dtype, std::span<const uint64_t> shape, Bytes stored);

}  // namespace mlc::cli
