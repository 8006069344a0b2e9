#include "packager/container/image.h"

#include <algorithm>

#include "schema/placement.h"

namespace mlc::container {
namespace {

constexpr std::array<std::byte, 4096> kZeroPage{};

void store(std::span<std::byte> at, uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

// Counts what passes, so that each item can be put at its place with zeros before it.
class PlacedSink {
 public:
  explicit PlacedSink(const Sink& sink) : sink_(sink) {}

  Status put(Bytes bytes) {
    at_ += bytes.size();
    return sink_(bytes);
  }
  Status zeros_until(uint64_t offset) {
    if (offset < at_) return Status(Code::Internal, "container writer: two items overlap");
    while (at_ < offset)
      MLC_RETURN_IF_ERROR(put(Bytes(kZeroPage).first(std::min<uint64_t>(kZeroPage.size(), offset - at_))));
    return ok();
  }
  uint64_t at() const { return at_; }

 private:
  const Sink& sink_;
  uint64_t at_ = 0;
};

Status put_segments(const std::vector<StoredSegment>& segments, const format::Placement& placement, bool packed,
                    PlacedSink& out) {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].present || (segments[i].stored_len < format::kPageAlign) != packed) continue;
    MLC_RETURN_IF_ERROR(out.zeros_until(placement.segments[i].offset));
    uint64_t start = out.at();
    MLC_RETURN_IF_ERROR(segments[i].stored([&](Bytes bytes) { return out.put(bytes); }));
    if (out.at() - start != segments[i].stored_len)
      return Status(Code::Internal, "container writer: a segment has another length than announced");
  }
  return ok();
}

}  // namespace

Core make_core(uint64_t manifest_len, uint32_t segment_count) {
  Core core{};
  std::span<std::byte> at(core);
  std::copy(format::kMagic.begin(), format::kMagic.end(), reinterpret_cast<uint8_t*>(core.data()));
  store(at.subspan(8), format::kVersionMajor, 2);
  store(at.subspan(10), format::kVersionMinor, 2);
  store(at.subspan(12), format::kHeaderLen, 4);
  store(at.subspan(24), format::kAlignLog2, 1);
  store(at.subspan(25), format::kLeafLog2, 1);
  store(at.subspan(26), format::kHashSha256, 1);
  store(at.subspan(28), segment_count, 4);
  store(at.subspan(32), manifest_len, 8);
  return core;
}

Status emit_body(const Core& core, Bytes manifest, const std::vector<StoredSegment>& segments, const Sink& sink) {
  std::vector<format::SegmentShape> shapes;
  for (const StoredSegment& s : segments) shapes.push_back({s.codec, s.stored_len, s.decoded_len, s.present});
  auto placement = format::place(manifest.size(), shapes);
  if (!placement) return Status(Code::Malformed, "a segment is too long");

  std::vector<std::byte> front(format::kHeaderLen);
  std::copy(core.begin(), core.end(), front.begin());
  std::span<std::byte> header(front);
  store(header.subspan(64), placement->body_size, 8);
  store(header.subspan(72), placement->placement_off, 8);
  store(header.subspan(80), placement->manifest_off, 8);
  store(header.subspan(88), placement->leaves_off, 8);
  store(header.subspan(96), placement->leaves_len, 8);
  std::vector<std::byte> table(segments.size() * 8);
  for (size_t i = 0; i < segments.size(); ++i)
    store(std::span<std::byte>(table).subspan(i * 8), placement->segments[i].offset, 8);

  PlacedSink out(sink);
  MLC_RETURN_IF_ERROR(out.put(front));
  MLC_RETURN_IF_ERROR(out.put(table));
  MLC_RETURN_IF_ERROR(out.zeros_until(placement->manifest_off));
  MLC_RETURN_IF_ERROR(out.put(manifest));
  MLC_RETURN_IF_ERROR(put_segments(segments, *placement, /*packed=*/true, out));
  MLC_RETURN_IF_ERROR(put_segments(segments, *placement, /*packed=*/false, out));
  MLC_RETURN_IF_ERROR(out.zeros_until(placement->leaves_off));
  for (const StoredSegment& segment : segments)
    if (segment.present) MLC_RETURN_IF_ERROR(out.put(segment.leaf_table));
  if (out.at() != placement->body_size)
    return Status(Code::Internal, "container writer: the body has another length than placed");
  return ok();
}

}  // namespace mlc::container
