// Items of a manifest as JSON and as short texts.
#pragma once

#include <string>

#include "base/cli/json_tree.h"
#include "schema/manifest.h"

namespace mlc::cli {

// A number, or its digits as a string where readers of JSON that know doubles only would round it (above 2^53).
[[nodiscard]] Json exact(uint64_t number);

[[nodiscard]] uint64_t num_elements(const format::Tensor& tensor);  // saturates
[[nodiscard]] std::string tensor_text(const format::Tensor& tensor);                          // "f32[64,3,7,7]"
[[nodiscard]] std::string feature_text(uint32_t feature);                                     // "x86.avx2"
[[nodiscard]] std::string clause_text(const format::Clause& clause);                          // "host.cores >= 4"

[[nodiscard]] Json model_json(const format::Manifest& manifest);  // with provenance
[[nodiscard]] Json program_json(const format::Manifest& manifest, const format::Method& method);
[[nodiscard]] Json variant_json(const format::Manifest& manifest, const format::Variant& variant);
[[nodiscard]] Json segment_json(const format::Segment& segment, uint64_t offset, bool present);
[[nodiscard]] Json assets_json(const format::Manifest& manifest);
[[nodiscard]] Json golden_json(const format::Manifest& manifest);
[[nodiscard]] Json tensors_json(const format::Manifest& manifest);

}  // namespace mlc::cli
