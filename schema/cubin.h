// Cubins: ELF files of NVIDIA's assembler, which drivers load as they are. Read by the packager and by the loader that gives them to a driver; what the
// instructions do is told by the PTX that they were made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "schema/gpu_module.h"

namespace mlc::gpu {

struct Cubin {
  struct Entry {
    std::string name;
    uint64_t shared_bytes = 0;  // that it states itself
  };
  uint32_t architecture = 0;  // 90 for sm_90
  std::vector<Entry> entries;
};

// Malformed unless the file is whole, has an entry at least, imports nothing and has no memory of the module's own.
Result<Cubin> read_cubin(Bytes bytes);

// Malformed unless it is for that architecture and has these entries and no other, with the memory that they state.
Status check_cubin(Bytes bytes, uint32_t architecture, std::span<const Entry* const> entries);

}  // namespace mlc::gpu
