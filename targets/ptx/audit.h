// Whether PTX keeps to a target, from its text; and what an entry of it is for a loader.
#pragma once

#include <set>

#include "schema/gpu_module.h"
#include "targets/ptx/parse.h"
#include "targets/target.h"

namespace mlc::targets::ptx {

// Version of PTX and architecture that a target's images state: 65 and 75 for "cuda-sm75".
struct Level {
  unsigned version = 0, sm = 0;
  bool is_specific = false;  // sm_90a: the code is for this architecture alone
  bool operator==(const Level&) const = default;
};
Level level_of(const Target& target);

// Fails where the header is another than the target's or an instruction came later; else the classes of instructions it uses.
Result<std::set<OpClass>> audit_image(const Target& target, const Image& image);

// Fails unless `entry` of the module is what the code says: parameters, lanes, memory of a block, barriers.
Status audit_entry(const mlc::gpu::Entry& entry, const Entry& code);

// All of a module, from its bytes.
Status audit_module_bytes(const Target& target, std::span<const std::byte> module);

}  // namespace mlc::targets::ptx
