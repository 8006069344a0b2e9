// The state of a session as bytes: the format of spec/state.md. What is decoded may come from anywhere.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"
#include "runtime/memory/aligned_block.h"
#include "signing/hash_tree.h"

namespace mlc::api {

struct StateArray {
  std::string_view name;
  DType dtype = DType::None;
  std::vector<int64_t> shape;
  Bytes bytes;  // what dtype and shape make
};

// Resource if there is no memory. `from` outlives the result; null: the system's memory.
Result<AlignedBlock> encode_state(const Digest& root, std::span<const StateArray> arrays, const Allocator* from);

struct SavedState {
  Digest root{};
  std::vector<StateArray> arrays;  // views of the bytes; each name once
};
// Malformed if these are not bytes that encode_state made.
Result<SavedState> decode_state(Bytes bytes);

}  // namespace mlc::api
