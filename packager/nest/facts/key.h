// Which nests do the same: compared by text.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "packager/ir/structure_key.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// A text that two nests of one ir::Context share exactly if they compute the same: dims go by their order and extents. What is
// written to does not enter it. `name` writes numbers for an array that is read.
std::string key_of(const Nest& nest, const std::function<void(ir::StructureKey& key, uint32_t array)>& name);

// The same for all that lowering sees of a nest: element types, shapes and layouts of the arrays read and written, by the order
// in which they are met; of several nests one after the other. What has one key becomes kernels that are equal but for the numbers of
// their arrays.
struct LoweringKey {
  std::string text;
  std::vector<uint32_t> arrays;  // in that order
};
LoweringKey lowering_key(const Function& function, std::span<const Nest* const> nests);

// The same with nothing in its text that belongs to a Context: equal nests of other builds, and of other models, share it.
LoweringKey lasting_key(const Function& function, std::span<const Nest* const> nests);

}  // namespace mlc::nest
