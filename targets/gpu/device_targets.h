// The targets of devices: what each asks of a device, and the facts that schedules need. Emitters return them from targets();
// they are described here, so that the compiler can lower for a device in builds whose emitter for it is missing.
#pragma once

#include <string_view>

#include "schema/manifest.h"
#include "targets/target.h"

namespace mlc::targets::gpu {

// A row by its name, its emitter not set: "vulkan-base", "vulkan-subgroup", "vulkan-matrix", "vulkan-matrix8", "cuda-sm75", "cuda-sm80", "cuda-sm90", "cuda-sm90a". The name is one of these.
Target device_target(std::string_view name);

// Adds what every module of the target needs: its family, "vulkan" or "cuda", the format of its module, features and clauses.
// Features stay sorted. What a module uses beside is the emitter's to add, by add_feature.
void require_device(const Target& target, format::Variant& variant);
void add_feature(format::Variant& variant, Feature feature);

}  // namespace mlc::targets::gpu
