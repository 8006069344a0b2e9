// Cuts weights into segments by the names of tensors, so that a tensor that is new, gone or longer moves the bytes of its own segment only:
// leaves are counted from the beginning of a segment, and those of all other segments stay what they are (spec/container.md, section 10).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "packager/container/builder.h"

namespace mlc::container {

class WeightSegments {
 public:
  // `total`: bytes of all copies of all tensors. `builder` must outlive this.
  WeightSegments(ContainerBuilder& builder, uint64_t total);
  // The segment that the copies of this tensor go to; all of one tensor go to one. Tensors come in their order.
  uint32_t segment_for(std::string_view tensor);

 private:
  ContainerBuilder& builder_;
  const uint64_t least_, most_;
  std::optional<uint32_t> segment_;
  uint32_t count_ = 0;
};

}  // namespace mlc::container
