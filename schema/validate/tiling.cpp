#include "schema/validate/tiling.h"

#include <algorithm>
#include <string>

#include "base/compose.h"
#include "schema/validate/validate.h"

namespace mlc::format {
namespace {

struct Item {
  uint32_t segment;
  uint64_t offset, length;
};

// Segments that belong as a whole to the items that name them; several variants may share one.
bool owned_whole(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::Module: case SegmentKind::Plan: case SegmentKind::Tuning: case SegmentKind::PortableIr:
      return true;
    case SegmentKind::None: case SegmentKind::Weights: case SegmentKind::Asset: case SegmentKind::Golden:
    case SegmentKind::Operator: case SegmentKind::Parent: case SegmentKind::SourceMap:
      return false;
  }
  return false;
}
bool may_be_unowned(SegmentKind kind) {
  return kind == SegmentKind::Parent || kind == SegmentKind::SourceMap || static_cast<uint8_t>(kind) > kLastSegmentKind;
}

std::vector<Item> collect_items(const Manifest& m) {
  std::vector<Item> items;
  auto add = [&](const Ref& ref) {
    if (ref.length != 0) items.push_back({ref.segment, ref.offset, ref.length});
  };
  for (const Tensor& tensor : m.tensors)
    for (const Copy& copy : tensor.copies) add(copy.ref);
  for (const Asset& asset : m.assets) add(asset.ref);
  for (const Golden& golden : m.golden) {
    for (const GoldenArray& array : golden.inputs) add(array.ref);
    for (const GoldenArray& array : golden.outputs) add(array.ref);
  }
  for (const Operator& op : m.operators) add(op.text);
  for (const Extension& extension : m.extensions)
    if (extension.data) add(*extension.data);
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.segment != b.segment ? a.segment < b.segment : a.offset < b.offset;
  });
  return items;
}

std::vector<bool> collect_whole(const Manifest& m) {
  std::vector<bool> named(m.segments.size());
  for (const Variant& variant : m.variants) {
    if (variant.plan) named[*variant.plan] = true;
    if (variant.module) named[*variant.module] = true;
  }
  for (const Tuning& tuning : m.tuning) named[tuning.segment] = true;
  if (m.portable) named[m.portable->segment] = true;
  return named;
}

}  // namespace

Result<std::vector<SegmentGap>> tile_segments(const Manifest& m) {
  const std::vector<Item> items = collect_items(m);
  const std::vector<bool> whole = collect_whole(m);
  std::vector<SegmentGap> gaps;
  size_t at = 0;
  for (uint32_t s = 0; s < m.segments.size(); ++s) {
    const Segment& segment = m.segments[s];
    auto fail = [&](const char* pattern, Pieces pieces = {}) {
      return Status(Code::Malformed, "segment {}: {}", quoted(segment.name), compose_pieces(pattern, pieces));
    };
    size_t first = at;
    uint64_t end = 0;
    for (; at < items.size() && items[at].segment == s; ++at) {
      if (items[at].offset < end)
        return fail("two items share the byte at offset {}", {items[at].offset});
      uint64_t gap = items[at].offset - end;
      if (gap >= kPackedAlign || (gap != 0 && at == first))
        return fail("{} bytes at offset {} belong to nothing", {gap, end});
      if (gap != 0) gaps.push_back({s, static_cast<uint32_t>(gap), end});
      end = items[at].offset + items[at].length;  // in range: checked with the Ref
    }
    if (at == first) {
      bool owned = owned_whole(segment.kind) ? static_cast<bool>(whole[s]) : may_be_unowned(segment.kind);
      if (!owned) return fail("belongs to nothing in the manifest");
    } else if (owned_whole(segment.kind)) {
      return fail("a segment of kind {} cannot be shared by ranges", {name_of(segment.kind)});
    } else if (end != segment.decoded_len) {
      return fail("{} bytes at its end belong to nothing", {segment.decoded_len - end});
    }
  }
  return gaps;
}

}  // namespace mlc::format
