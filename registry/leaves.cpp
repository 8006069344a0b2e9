#include "registry/leaves.h"

#include <algorithm>

#include "runtime/container/leaf_table.h"

namespace mlc::registry {
namespace {

void add_leaves(const format::Segment& segment, uint32_t index, uint64_t offset, const container::LeafTable& table, std::vector<Leaf>& out) {
  const bool is_raw = segment.codec == format::Codec::Raw;
  for (uint64_t k = 0; k < table.count(); ++k) {
    const uint64_t begin = is_raw ? k * format::kLeafLen : table.frame_starts[k];
    const uint64_t end = is_raw ? std::min(begin + format::kLeafLen, segment.stored_len) : table.frame_starts[k + 1];
    out.push_back({offset + begin, static_cast<uint32_t>(end - begin), table.digests[k], index});
  }
}

}  // namespace

Result<format::Placement> placement_of(const container::Container& file, uint64_t manifest_len) {
  std::vector<format::SegmentShape> shapes;
  const auto& segments = file.manifest().segments;
  for (uint32_t i = 0; i < segments.size(); ++i) shapes.push_back({segments[i].codec, segments[i].stored_len, segments[i].decoded_len, file.present(i)});
  auto placement = format::place(manifest_len, shapes);
  if (!placement || placement->body_size != file.body_size()) return Status(Code::Internal, "the segments of {} cannot be placed", file.name());
  return std::move(*placement);
}

Result<std::vector<Leaf>> leaves_of(const container::Container& file, const container::Source& source, uint64_t manifest_len) {
  MLC_ASSIGN(const format::Placement placement, placement_of(file, manifest_len));
  std::vector<Leaf> out;
  const auto& segments = file.manifest().segments;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (!file.present(i)) continue;
    MLC_ASSIGN(const container::LeafTable table, container::load_leaf_table(source, segments[i], placement.segments[i]));
    add_leaves(segments[i], i, placement.segments[i].offset, table, out);
  }
  std::sort(out.begin(), out.end(), [](const Leaf& a, const Leaf& b) { return a.offset < b.offset; });
  return out;
}

std::vector<Range> ranges_of(const std::vector<Leaf>& leaves, uint64_t gap, uint64_t most) {
  std::vector<Range> out;
  for (const Leaf& leaf : leaves) {
    const uint64_t end = leaf.offset + leaf.length;
    if (!out.empty() && leaf.offset - out.back().end < gap && end - out.back().begin <= most) out.back().end = end;
    else out.push_back({leaf.offset, end});
  }
  return out;
}

}  // namespace mlc::registry
