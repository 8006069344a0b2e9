// What an audit vouches for: this module, these features, these clauses, and nothing else.
#pragma once

#include <cstddef>
#include <vector>

#include "schema/manifest.h"

namespace mlc::format {

// "MLCAUDT1" | module segment digest | u32 n, u32 features... | u32 n, { u32 id, u8 op, u32 n, i64 values... }...
// little-endian. Audit::digest is its SHA-256; `module_segment` is Segment::digest of the variant's module.
std::vector<std::byte> audit_preimage(const Variant& variant, const Digest& module_segment);

}  // namespace mlc::format
