#include "packager/container/weight_segments.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "signing/hash_tree.h"

namespace mlc::container {
namespace {

constexpr uint64_t kLeastSegment = uint64_t{2} << 20, kMostSegment = uint64_t{32} << 20;
constexpr uint64_t kSegmentsOfLargeFile = 512;

// One tensor in four, whatever stands beside it.
bool may_begin(std::string_view tensor) { return (std::to_integer<unsigned>(sha256(tensor)[0]) & 3) == 0; }

// "weights", "weights/00001", ...: their order is that of the tensors.
std::string segment_name(uint32_t number) {
  if (number == 0) return "weights";
  char text[32];
  std::snprintf(text, sizeof text, "weights/%05u", number);
  return text;
}

}  // namespace

// A power of two: a file that grows a little is cut where it was cut before.
WeightSegments::WeightSegments(ContainerBuilder& builder, uint64_t total)
    : builder_(builder), least_(std::max(kLeastSegment, std::bit_floor(total / kSegmentsOfLargeFile))), most_(std::max(kMostSegment, least_)) {}

uint32_t WeightSegments::segment_for(std::string_view tensor) {
  const uint64_t held = segment_ ? builder_.segment_len(*segment_) : 0;
  if (!segment_ || held >= most_ || (held >= least_ && may_begin(tensor))) segment_ = builder_.add_segment(segment_name(count_++), format::SegmentKind::Weights);
  return *segment_;
}

}  // namespace mlc::container
