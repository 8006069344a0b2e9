// A container run by a program for another processor, through files.
#pragma once

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "packager/nest/tensor.h"

namespace mlc::conformance {

// Runs `command... CONTAINER VARIANT INPUTS OUTPUTS` in a temporary folder.
Result<std::vector<nest::Tensor>> emulate(const std::vector<std::string>& command, Bytes container, const std::string& variant,
                                          const std::vector<nest::Tensor>& inputs);

// Tensors one after the other: u32 element type, u32 list depth, u32 rank, i64 extents, u64 bytes, the bytes; of lists
// u64 items, the items. The host's byte order.
Status write_tensors(const std::string& path, const std::vector<nest::Tensor>& tensors);
Result<std::vector<nest::Tensor>> read_tensors(const std::string& path);

}  // namespace mlc::conformance
