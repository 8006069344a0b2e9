#include "registry/host_part.h"

#include <algorithm>
#include <array>

#include "packager/container/image.h"
#include "packager/container/kept_segments.h"
#include "runtime/container/header.h"
#include "runtime/match/matcher.h"
#include "runtime/probe/devices.h"
#include "runtime/probe/probe.h"
#include "schema/placement.h"

namespace mlc::registry {
namespace {

constexpr uint64_t kPiece = 1u << 20;

Status deliver(const container::Source& source, uint64_t offset, uint64_t length, const container::Sink& sink) {
  std::vector<std::byte> piece;
  while (length > 0) {
    piece.resize(static_cast<size_t>(std::min(kPiece, length)));
    MLC_RETURN_IF_ERROR(source.read(offset, piece));
    MLC_RETURN_IF_ERROR(sink(piece));
    offset += piece.size();
    length -= piece.size();
  }
  return ok();
}

}  // namespace

HostPart host_part(const container::Container& file) {
  const format::Manifest& manifest = file.manifest();
  const Matcher matcher(probe::host(), manifest.variants);
  const bool has_devices = probe::may_have_graphics();
  HostPart part;
  std::vector<const format::Variant*> kept;
  for (uint32_t k = 0; k < manifest.variants.size(); ++k) {
    const format::Variant& variant = manifest.variants[k];
    const bool is_portable = variant.module_format == format::ModuleFormat::Portable;
    const bool is_whole = file.present(*variant.plan) && file.present(*variant.module);
    const bool stays = is_portable || (is_whole && (is_for_device(variant) ? has_devices : matcher.assessments()[k].fits));
    if (stays) kept.push_back(&variant);
    (stays ? part.variants : part.absent).push_back(variant.name);
  }
  part.segments = container::kept_segments(manifest, kept);
  return part;
}

Status write_part(const HostPart& part, const container::Container& file, const container::Source& source, container::OutputFile& out) {
  std::array<std::byte, format::kHeaderLen> page{};
  MLC_RETURN_IF_ERROR(source.read(0, page));
  MLC_ASSIGN(const container::Header header, container::parse_header(page));
  std::vector<std::byte> manifest(header.manifest_len);
  MLC_RETURN_IF_ERROR(source.read(header.manifest_off, manifest));
  const auto& segments = file.manifest().segments;
  std::vector<format::SegmentShape> shapes;
  for (uint32_t i = 0; i < segments.size(); ++i) shapes.push_back({segments[i].codec, segments[i].stored_len, segments[i].decoded_len, file.present(i)});
  const auto placement = format::place(manifest.size(), shapes);
  if (!placement) return Status(Code::Internal, "{} is open and cannot be placed", file.name());
  std::vector<container::StoredSegment> stored;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    const auto item = placement->segments[i];
    container::StoredSegment one{shapes[i].codec, shapes[i].stored_len, shapes[i].decoded_len, file.present(i) && part.segments.count(i) > 0, {}, {}};
    if (one.present) {
      one.leaf_table.resize(item.table_len);
      MLC_RETURN_IF_ERROR(source.read(item.table_off, one.leaf_table));
      one.stored = [&source, item, length = one.stored_len](const container::Sink& sink) { return deliver(source, item.offset, length, sink); };
    }
    stored.push_back(std::move(one));
  }
  const auto write = [&](Bytes bytes) { return out.write(bytes); };
  MLC_RETURN_IF_ERROR(container::emit_body(header.core, manifest, stored, write));
  return deliver(source, file.body_size(), source.size() - file.body_size(), write);
}

}  // namespace mlc::registry
