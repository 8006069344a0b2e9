#include "base/compose.h"
#include "schema/placement.h"
#include "schema/validate/validate_internal.h"

namespace mlc::format {
namespace {

uint64_t max_len_of(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::Module: return kMaxModuleLen;
    case SegmentKind::Plan: return kMaxPlanLen;
    case SegmentKind::Golden: return kMaxGoldenLen;
    case SegmentKind::Operator: return kMaxOperatorsLen;
    case SegmentKind::Parent: return kMaxManifestLen + kCoreLen;
    case SegmentKind::None: case SegmentKind::Weights: case SegmentKind::Asset: case SegmentKind::Tuning:
    case SegmentKind::PortableIr: case SegmentKind::SourceMap:
      return kMaxSegmentLen;
  }
  return kMaxSegmentLen;
}

// Kinds without which a file no longer says what its interface is or cannot be tested.
bool never_droppable(SegmentKind kind) {
  return kind == SegmentKind::Asset || kind == SegmentKind::Golden || kind == SegmentKind::Operator;
}

Status validate_lengths(const Segment& segment, const Place& place) {
  uint64_t most = max_len_of(segment.kind);
  if (segment.stored_len == 0 || segment.decoded_len == 0) return place.wrong("is empty");
  if (segment.decoded_len > most)
    return place.wrong("{} bytes, at most {} allowed", segment.decoded_len, most);
  switch (segment.codec) {
    case Codec::Raw:
      if (segment.stored_len != segment.decoded_len) return place.wrong("raw, but stored and decoded length differ");
      return ok();
    case Codec::Zstd:
      if (segment.stored_len > leaf_count(segment.decoded_len) * kMaxFrameLen)
        return place.wrong("stored length exceeds what its frames can hold");
      if (segment.decoded_len / kMaxZstdRatio > segment.stored_len)
        return place.wrong("expands more than {} times", kMaxZstdRatio);
      return ok();
    case Codec::None: break;
  }
  return place.wrong("codec {} is unknown", static_cast<uint8_t>(segment.codec));
}

}  // namespace

Status validate_segments(const Manifest& m) {
  for (size_t i = 0; i < m.segments.size(); ++i) {
    const Segment& segment = m.segments[i];
    Place place{"segments", i, segment.name};
    if (!is_segment_name(segment.name))
      return place.wrong("name must be labels of letters, digits, '.', '_', '+' and '-', joined by '/'");
    if (segment.kind == SegmentKind::None) return place.wrong("kind is missing");
    if (static_cast<uint8_t>(segment.kind) > kLastSegmentKind && segment.critical)
      return place.wrong("kind {} is unknown and marked critical", static_cast<uint8_t>(segment.kind));
    MLC_RETURN_IF_ERROR(validate_lengths(segment, place));
    if (segment.droppable && never_droppable(segment.kind))
      return place.wrong("a segment of kind {} must not be droppable", name_of(segment.kind));
  }
  return check_sorted(m.segments, "segments", [](const Segment& s) -> std::string_view { return s.name; });
}

}  // namespace mlc::format
