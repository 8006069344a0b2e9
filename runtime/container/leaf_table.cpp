#include "runtime/container/leaf_table.h"

#include <algorithm>

#include "base/byte_cursor.h"
#include "base/compose.h"
#include "runtime/container/allocate.h"
#include "schema/validate/validate.h"
#include "signing/hash_tree.h"

namespace mlc::container {

std::string label_of(const format::Segment& segment) { return "segment " + format::quoted(segment.name); }

Status digest_mismatch(const format::Segment& segment, const std::string& what, const format::Digest& expected, const format::Digest& found,
                       const Source* source, uint64_t offset) {
  Status status = Status(Code::BadSignature, 3102, "{}: {} does not match its digest; the file is damaged or was changed", label_of(segment), what)
                      .fact("expected  sha256:{}", to_hex(expected))
                      .fact("found     sha256:{}", to_hex(found))
                      .hint("copy or download the file again");
  if (source != nullptr && source->file_at(offset) != source->name()) status.facts.push_back("part      " + source->file_at(offset));
  return status;
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
  ByteCursor in(bytes);
  std::ranges::copy(in.bytes(item.leaves * sizeof(format::Digest)), std::as_writable_bytes(std::span(table.digests)).begin());
  format::Digest found =
      segment_digest(static_cast<uint8_t>(segment.codec), segment.stored_len, segment.decoded_len, table.digests);
  if (found != segment.digest) return digest_mismatch(segment, "the leaf table", segment.digest, found, &source, item.table_off);

  if (segment.codec == format::Codec::Zstd) {
    table.frame_starts.push_back(0);
    for (uint64_t i = 0; i < item.leaves; ++i) {
      const auto length = in.take<uint32_t>();
      if (length == 0 || length > format::kMaxFrameLen)
        return fail(compose("frame {} has {} bytes", i, length));
      table.frame_starts.push_back(table.frame_starts.back() + length);  // at most 16384 * kMaxFrameLen
    }
    if (table.frame_starts.back() != segment.stored_len) return fail("the frames do not add up to the segment");
  }
  in.skip_zeros(in.left());
  if (in.failed()) return fail("padding is not zero");
  return table;
}

}  // namespace mlc::container
