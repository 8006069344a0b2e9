// The cheap half of the audit of PTX, before a driver assembles it: which architecture the text is for, and that it has the entries.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "schema/gpu_module.h"

namespace mlc::cuda {

// `capability`: of the device, 90 for 9.0. Unsupported if the text is for a later one, Malformed if it is not what `entries` say.
Status check_text(std::span<const std::byte> text, std::span<const gpu::Entry* const> entries, uint32_t capability);

}  // namespace mlc::cuda
