#include "runtime/container/header.h"

#include <algorithm>
#include <string>

#include "base/byte_cursor.h"
#include "base/compose.h"
#include "schema/placement.h"

namespace mlc::container {
namespace {

Status wrong(Piece field, uint64_t found, Piece expected) {
  return Status(Code::Malformed, "header page: {} is {}, {} expected", field, found, expected);
}

Status check_version(uint64_t major, uint64_t minor) {
  if (major == format::kVersionMajor) return ok();
  return Status(Code::Malformed, "container format {}.{}, this version reads {}.x", major, minor, format::kVersionMajor)
      .hint("update mlrun, or build the model again with the mlpack of this version");
}

// The next `count` bytes of the page.
Status check_zeros(Bytes page, ByteCursor& in, uint64_t count) {
  in.skip_zeros(count);
  if (!in.failed()) return ok();
  return wrong(compose("byte {}", in.offset()), std::to_integer<uint64_t>(page[in.offset()]), "zero");
}

}  // namespace

Result<Header> parse_header(std::span<const std::byte, format::kHeaderLen> page) {
  Header h;
  std::copy_n(page.begin(), format::kCoreLen, h.core.begin());
  ByteCursor in(page);  // never at its end before the last field: the page is of fixed size
  if (!std::ranges::equal(in.bytes(format::kMagic.size()), std::as_bytes(std::span(format::kMagic))))
    return Status(Code::Malformed, "header page: the first eight bytes are not those of a container");
  const auto major = in.take<uint16_t>();
  h.ver_minor = in.take<uint16_t>();
  MLC_RETURN_IF_ERROR(check_version(major, h.ver_minor));
  if (const auto len = in.take<uint32_t>(); len != format::kHeaderLen) return wrong("header_len", len, "4096");
  if (const auto flags = in.take<uint32_t>(); flags != 0)
    return Status(Code::Malformed, "header page: critical flags {} are unknown to this version", flags)
        .hint("update mlrun, or build the model again with the mlpack of this version");
  h.optional_flags = in.take<uint32_t>();
  if (const auto log2 = in.take<uint8_t>(); log2 != format::kAlignLog2) return wrong("align_log2", log2, "16");
  if (const auto log2 = in.take<uint8_t>(); log2 != format::kLeafLog2) return wrong("leaf_log2", log2, "20");
  if (const auto id = in.take<uint8_t>(); id != format::kHashSha256) return wrong("hash_id", id, "1 (SHA-256)");
  MLC_RETURN_IF_ERROR(check_zeros(page, in, 1));
  h.segment_count = in.take<uint32_t>();
  if (h.segment_count == 0 || h.segment_count > format::kMaxSegments)
    return wrong("segment_count", h.segment_count, "1 to 65535");
  h.manifest_len = in.take<uint64_t>();
  if (h.manifest_len == 0 || h.manifest_len >= format::kMaxManifestLen)
    return wrong("manifest_len", h.manifest_len, "1 to 67108863");
  MLC_RETURN_IF_ERROR(check_zeros(page, in, format::kCoreLen - in.offset()));
  h.body_size = in.take<uint64_t>();
  h.placement_off = in.take<uint64_t>();
  h.manifest_off = in.take<uint64_t>();
  h.leaves_off = in.take<uint64_t>();
  h.leaves_len = in.take<uint64_t>();
  if (h.placement_off != format::kHeaderLen) return wrong("placement_off", h.placement_off, "4096");
  uint64_t manifest_off = format::manifest_offset(h.segment_count);
  if (h.manifest_off != manifest_off) return wrong("manifest_off", h.manifest_off, std::to_string(manifest_off));
  if (h.body_size < manifest_off + h.manifest_len)  // both are small
    return wrong("body_size", h.body_size, compose("at least {}", manifest_off + h.manifest_len));
  MLC_RETURN_IF_ERROR(check_zeros(page, in, in.left()));
  return h;
}

}  // namespace mlc::container
