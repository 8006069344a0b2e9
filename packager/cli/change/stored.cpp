#include "packager/cli/change/stored.h"

#include "schema/placement.h"

namespace mlc::cli {

Result<std::vector<container::StoredSegment>> stored_segments(const ContainerFile& file) {
  const auto& segments = file.opened->manifest().segments;
  std::vector<format::SegmentShape> shapes;
  for (uint32_t i = 0; i < segments.size(); ++i)
    shapes.push_back({segments[i].codec, segments[i].stored_len, segments[i].decoded_len, file.opened->present(i)});
  const auto placement = format::place(file.manifest.size(), shapes);
  if (!placement) return Status(Code::Internal, file.path + ": opened and cannot be placed");
  std::vector<container::StoredSegment> out;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    const auto& item = placement->segments[i];
    container::StoredSegment stored{shapes[i].codec, shapes[i].stored_len, shapes[i].decoded_len, shapes[i].present, {}, {}};
    if (stored.present) {
      const auto keep = [&](Bytes bytes) {
        stored.leaf_table.insert(stored.leaf_table.end(), bytes.begin(), bytes.end());
        return ok();
      };
      MLC_RETURN_IF_ERROR(copy_range(file.path, item.table_off, item.table_len, keep));
      stored.stored = [path = file.path, offset = item.offset, length = stored.stored_len](const container::Sink& sink) { return copy_range(path, offset, length, sink); };
    }
    out.push_back(std::move(stored));
  }
  return out;
}

}  // namespace mlc::cli
