// The cheap half of the audit of SPIR-V, repeated on verified words before a driver sees them: that it is a module at all, of
// a version that the device knows, asks for nothing that is not switched on, and has the entries that its table says.
// What instructions do was proved by the packager.
#pragma once

#include <span>

#include "base/checked.h"
#include "base/status.h"
#include "loaders/vulkan/physical.h"
#include "schema/gpu_module.h"

namespace mlc::vulkan {

// `entries`: those of this image. Unsupported if this device cannot run it, Malformed if nothing should.
Status check_words(Bytes words, std::span<const gpu::Entry* const> entries, const Physical& physical);

}  // namespace mlc::vulkan
