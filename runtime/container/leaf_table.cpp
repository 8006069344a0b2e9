#include "runtime/container/leaf_table.h"

#include <algorithm>
#include <cstring>

#include "base/compose.h"
#include "runtime/container/allocate.h"
#include "schema/validate.h"
#include "signing/hash_tree.h"

namespace mlc::container {

std::string label_of(const format::Segment& segment) { return "segment " + format::quoted(segment.name); }

Status digest_mismatch(const format::Segment& segment, const std::string& what, const format::Digest& expected,
                       const format::Digest& found) {
  return Status(Code::BadSignature, 3102,
                "{}: {} does not match its digest; the file is damaged or was changed", label_of(segment), what)
      .fact("expected  sha256:{}", to_hex(expected))
      .fact("found     sha256:{}", to_hex(found))
      .hint("copy or download the file again");
}

Result<LeafTable> load_leaf_table(const Source& source, const format::Segment& segment,
                                  const format::Placement::Item& item) {
  auto fail = [&](std::string_view why) {
    return Status(Code::Malformed, "{}: leaf table: {}", label_of(segment), why);
  };
  MLC_ASSIGN(std::vector<std::byte> bytes, allocate(item.table_len));
  if (Status status = source.read(item.table_off, bytes); !status.ok())
    return std::move(status).note(label_of(segment));

  LeafTable table;
  table.digests.resize(item.leaves);
  std::memcpy(table.digests.data(), bytes.data(), item.leaves * sizeof(format::Digest));
  format::Digest found =
      segment_digest(static_cast<uint8_t>(segment.codec), segment.stored_len, segment.decoded_len, table.digests);
  if (found != segment.digest) return digest_mismatch(segment, "the leaf table", segment.digest, found);

  size_t at = item.leaves * sizeof(format::Digest);
  if (segment.codec == format::Codec::Zstd) {
    table.frame_starts.push_back(0);
    for (uint64_t i = 0; i < item.leaves; ++i) {
      uint64_t length = 0;
      for (unsigned b = 0; b < 4; ++b) length |= static_cast<uint64_t>(bytes[at++]) << (8 * b);
      if (length == 0 || length > format::kMaxFrameLen)
        return fail(compose("frame {} has {} bytes", i, length));
      table.frame_starts.push_back(table.frame_starts.back() + length);  // at most 16384 * kMaxFrameLen
    }
    if (table.frame_starts.back() != segment.stored_len) return fail("the frames do not add up to the segment");
  }
  if (std::any_of(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end(),
                  [](std::byte b) { return b != std::byte{0}; }))
    return fail("padding is not zero");
  return table;
}

}  // namespace mlc::container
