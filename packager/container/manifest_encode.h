// The manifest as the bytes that are hashed and signed.
#pragma once

#include <cstddef>
#include <vector>

#include "schema/manifest.h"

namespace mlc::container {

// Objects are created in one fixed order, so equal manifests give equal bytes (FlatBuffers itself has no canonical
// form). Encodes whatever it is given, including manifests that break every rule: tests need those.
std::vector<std::byte> encode_manifest(const format::Manifest& manifest);

}  // namespace mlc::container
