#include "registry/texts/parts.h"

namespace mlc::registry {
namespace {

// A piece of `least` bytes or more stays alone, shorter neighbours are joined until they have as much.
std::vector<uint64_t> joined(std::span<const uint64_t> pieces, uint64_t least) {
  std::vector<uint64_t> out;
  bool is_open = false;  // the last part may get more
  for (const uint64_t piece : pieces) {
    if (is_open && piece < least) out.back() += piece;
    else out.push_back(piece);
    is_open = out.back() < least;
  }
  return out;
}

}  // namespace

std::vector<uint64_t> part_lengths(uint64_t file_size, std::span<const SegmentPlace> segments) {
  std::vector<uint64_t> pieces;
  uint64_t at = 0;
  const auto cut_at = [&](uint64_t end) {
    if (end > at) pieces.push_back(end - at);
    at = end;
  };
  for (const SegmentPlace& segment : segments) {
    cut_at(segment.offset);
    cut_at(segment.offset + segment.length);
  }
  cut_at(file_size);
  // Powers of two: a version that is a little longer is cut at the same places.
  std::vector<uint64_t> parts = pieces;
  for (uint64_t least = 2; parts.size() > kMaxParts && least != 0; least *= 2) parts = joined(pieces, least);
  return parts;
}

}  // namespace mlc::registry
