// The header page: everything that is known before the manifest (spec/container.md, "Header page").
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "schema/format.h"

namespace mlc::container {

struct Header {
  std::array<std::byte, format::kCoreLen> core{};  // as found, for the root
  uint16_t ver_minor = 0;
  uint32_t optional_flags = 0;
  uint32_t segment_count = 0;
  uint64_t manifest_len = 0;
  // Not signed; must equal what placement computes.
  uint64_t body_size = 0, placement_off = 0, manifest_off = 0, leaves_off = 0, leaves_len = 0;
};

// Malformed, naming the field, its value and the expected one. The magic has been looked at already (foreign.h).
[[nodiscard]] Result<Header> parse_header(std::span<const std::byte, format::kHeaderLen> page);

}  // namespace mlc::container
