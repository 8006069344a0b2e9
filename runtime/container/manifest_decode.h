// From the signed bytes of the manifest to plain values. The only file of the runtime that knows their FlatBuffers
// form.
#pragma once

#include "base/checked.h"
#include "base/status.h"
#include "schema/manifest.h"

namespace mlc::container {

// Runs the FlatBuffers verifier (depth 16, 10^6 tables), copies everything out and runs format::validate. `bytes` must
// lie at a multiple of 16 and be shorter than 64 MiB. Malformed, with the item named.
[[nodiscard]] Result<format::Manifest> decode_manifest(Bytes bytes);

}  // namespace mlc::container
