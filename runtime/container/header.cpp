#include "runtime/container/header.h"

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/compose.h"
#include "schema/placement.h"

namespace mlc::container {
namespace {

uint64_t load(Bytes page, size_t offset, unsigned width) {
  uint64_t value = 0;
  for (unsigned i = 0; i < width; ++i) value |= static_cast<uint64_t>(page[offset + i]) << (8 * i);
  return value;
}

Status wrong(Piece field, uint64_t found, Piece expected) {
  return Status(Code::Malformed, "header page: {} is {}, {} expected", field, found, expected);
}

Status check_version(uint64_t major, uint64_t minor) {
  if (major == format::kVersionMajor) return ok();
  return Status(Code::Malformed, "container format {}.{}, this version reads {}.x", major, minor, format::kVersionMajor)
      .hint("update mlrun, or rebuild the container with an older --target-version");
}

Status check_zeros(Bytes page, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i)
    if (page[i] != std::byte{0}) return wrong(compose("byte {}", i), load(page, i, 1), "zero");
  return ok();
}

}  // namespace

Result<Header> parse_header(std::span<const std::byte, format::kHeaderLen> bytes) {
  Bytes page = bytes;
  Header h;
  std::copy_n(page.begin(), format::kCoreLen, h.core.begin());
  if (!std::equal(format::kMagic.begin(), format::kMagic.end(), reinterpret_cast<const uint8_t*>(page.data())))
    return Status(Code::Malformed, "header page: the first eight bytes are not those of a container");
  MLC_RETURN_IF_ERROR(check_version(load(page, 8, 2), load(page, 10, 2)));
  h.ver_minor = static_cast<uint16_t>(load(page, 10, 2));
  if (load(page, 12, 4) != format::kHeaderLen) return wrong("header_len", load(page, 12, 4), "4096");
  if (load(page, 16, 4) != 0)
    return Status(Code::Malformed, "header page: critical flags {} are unknown to this version", load(page, 16, 4))
        .hint("update mlrun, or rebuild the container with an older --target-version");
  h.optional_flags = static_cast<uint32_t>(load(page, 20, 4));
  if (load(page, 24, 1) != format::kAlignLog2) return wrong("align_log2", load(page, 24, 1), "16");
  if (load(page, 25, 1) != format::kLeafLog2) return wrong("leaf_log2", load(page, 25, 1), "20");
  if (load(page, 26, 1) != format::kHashSha256) return wrong("hash_id", load(page, 26, 1), "1 (SHA-256)");
  MLC_RETURN_IF_ERROR(check_zeros(page, 27, 28));
  h.segment_count = static_cast<uint32_t>(load(page, 28, 4));
  if (h.segment_count == 0 || h.segment_count > format::kMaxSegments)
    return wrong("segment_count", h.segment_count, "1 to 65535");
  h.manifest_len = load(page, 32, 8);
  if (h.manifest_len == 0 || h.manifest_len >= format::kMaxManifestLen)
    return wrong("manifest_len", h.manifest_len, "1 to 67108863");
  MLC_RETURN_IF_ERROR(check_zeros(page, 40, 64));
  h.body_size = load(page, 64, 8);
  h.placement_off = load(page, 72, 8);
  h.manifest_off = load(page, 80, 8);
  h.leaves_off = load(page, 88, 8);
  h.leaves_len = load(page, 96, 8);
  if (h.placement_off != format::kHeaderLen) return wrong("placement_off", h.placement_off, "4096");
  uint64_t manifest_off = format::manifest_offset(h.segment_count);
  if (h.manifest_off != manifest_off) return wrong("manifest_off", h.manifest_off, std::to_string(manifest_off));
  if (h.body_size < manifest_off + h.manifest_len)  // both are small
    return wrong("body_size", h.body_size, compose("at least {}", manifest_off + h.manifest_len));
  MLC_RETURN_IF_ERROR(check_zeros(page, 104, format::kHeaderLen));
  return h;
}

}  // namespace mlc::container
