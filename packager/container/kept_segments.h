// What stays in a copy of a container that is made for some of its variants.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "schema/manifest.h"

namespace mlc::container {

// Segments that may not be left out, and those that these variants of `manifest` use. The portable variant always stays: name it.
[[nodiscard]] std::set<uint32_t> kept_segments(const format::Manifest& manifest, const std::vector<const format::Variant*>& variants);

}  // namespace mlc::container
