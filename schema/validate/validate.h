// The rules that a manifest must obey beyond being a well-formed FlatBuffer (spec/container.md, "Manifest"): limits,
// names, indices, ranges, tiling of segments. The writer runs them before writing, the reader before handing out.
#pragma once

#include "base/status.h"
#include "schema/manifest.h"

namespace mlc::format {

// OK, or Malformed with the item named: `tensors[3] "fc.weight": ...`. Time is n log n in the size of the manifest.
// Sets nothing except Variant::unusable of variants that break no rule but need something this version does not know.
[[nodiscard]] Status validate(Manifest& manifest);

// A name or other string of a manifest: UTF-8 without control characters, at most `max_len` bytes.
[[nodiscard]] bool is_clean_text(std::string_view text, uint64_t max_len);

// A label that is safe as a file name everywhere: [A-Za-z0-9._+-]+, no dot at either end, no reserved device name.
[[nodiscard]] bool is_label(std::string_view text);

// A model id: organisation/name, both of [a-z0-9._-]+.
[[nodiscard]] bool is_model_id(std::string_view text);

// How messages show a string from a file: in double quotes, at most 80 bytes, everything unprintable escaped.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace mlc::format
