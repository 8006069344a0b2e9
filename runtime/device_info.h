// What a device beside the processor says of itself. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/features.h"

namespace mlc::device {

// A feature of schema/features.tbl that the driver told: of a flag 0 or 1.
struct Fact {
  Feature feature = Feature::None;
  int64_t number = 0;
};

struct Info {
  std::string api;       // "vulkan"
  std::string identity;  // 32 hex digits: the same in every process, and under every API
  std::string title, driver;  // shown only
  bool is_software = false;   // the processor itself does the work: slower than native code, used when it is named
  uint64_t memory_bytes = 0;  // its own
  std::vector<Fact> facts;
};

}  // namespace mlc::device
