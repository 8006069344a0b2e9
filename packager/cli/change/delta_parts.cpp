#include "packager/cli/change/delta_parts.h"

#include <algorithm>

#include "base/byte_cursor.h"
#include "base/text/shell_word.h"
#include "schema/placement.h"
#include "schema/validate/validate.h"

namespace mlc::cli {
namespace {

using delta::Where;
using delta::Source;

Status no_such_place(uint32_t segment, size_t count) { return Status(Code::Malformed, "it refers to segment {} of a container that has {}", segment, count); }

Result<std::vector<std::byte>> part_of(Bytes bytes, const Source& source) {
  if (!range_within(source.offset, source.length, bytes.size()))
    return Status(Code::Malformed, "it refers to {} bytes from {} on, of {}", source.length, source.offset, bytes.size());
  const Bytes part = bytes.subspan(source.offset, source.length);
  return std::vector<std::byte>(part.begin(), part.end());
}

// Where tensors are in the segments of a container, by offset.
struct TensorPlace {
  uint64_t offset, length;
  std::string name;  // of the tensor, and its layout
};
std::map<uint32_t, std::vector<TensorPlace>> tensors_by_segment(const format::Manifest& m) {
  std::map<uint32_t, std::string> layouts;
  for (const format::Layout& layout : m.layouts) layouts[layout.id] = layout.text;
  std::map<uint32_t, std::vector<TensorPlace>> out;
  for (const format::Tensor& tensor : m.tensors)
    for (const format::Copy& copy : tensor.copies)
      if (copy.ref.length > 0) out[copy.ref.segment].push_back({copy.ref.offset, copy.ref.length, tensor.name + '\0' + layouts[copy.layout]});
  for (auto& [segment, places] : out) std::sort(places.begin(), places.end(), [](const TensorPlace& x, const TensorPlace& y) { return x.offset < y.offset; });
  return out;
}

class PieceFinder {
 public:
  PieceFinder(const PlacedBytes& a, const PlacedBytes& b) : a_(a), b_(b), of_b_(tensors_by_segment(b.file().opened->manifest())) {
    const format::Manifest& m = a.file().opened->manifest();
    for (uint32_t k = 0; k < m.segments.size(); ++k) {
      if (!a.segments()[k].present) continue;
      by_name_.emplace(m.segments[k].name, k);
      by_digest_.emplace(m.segments[k].digest, k);
      for (const Leaf& leaf : leaves_of(k, a.segments()[k])) known_.emplace(leaf.digest, leaf.place);
    }
    for (const auto& [segment, places] : tensors_by_segment(m))
      if (a.segments()[segment].present)
        for (const TensorPlace& place : places) tensors_of_a_.emplace(place.name, std::pair(segment, place.offset));
  }

  std::vector<Piece> all() {
    const ContainerFile& file = b_.file();
    std::vector<format::SegmentShape> shapes;
    for (const container::StoredSegment& s : b_.segments()) shapes.push_back({s.codec, s.stored_len, s.decoded_len, s.present});
    const auto placement = format::place(file.manifest.size(), shapes);  // which the reader has compared with the file
    add_range(0, placement->manifest_off, {});
    add_range(placement->manifest_off, file.manifest.size(), Source{Where::Manifest, 0, 0, 0});
    std::vector<uint32_t> order;
    for (uint32_t k = 0; k < shapes.size(); ++k)
      if (shapes[k].present) order.push_back(k);
    std::sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return placement->segments[x].offset < placement->segments[y].offset; });
    for (const uint32_t k : order) add_segment(k, placement->segments[k].offset);
    add_zeros(placement->leaves_off);
    for (uint32_t k = 0; k < shapes.size(); ++k)
      if (shapes[k].present) add_range(at_, placement->segments[k].table_len, table_like(k));
    add_range(at_, file.opened->file_size() - at_, {});
    return std::move(pieces_);
  }

 private:
  void add(uint64_t length, Piece::Kind kind, const Source& source) {
    pieces_.push_back({at_, static_cast<uint32_t>(length), kind, source});
    at_ += length;
  }
  void add_zeros(uint64_t until) {
    while (at_ < until) add(std::min<uint64_t>(delta::kMaxPart, until - at_), Piece::Kind::Zeros, {});
  }
  // Cut where leaves would be; each piece may be like the bytes at its place in `like`.
  void add_range(uint64_t offset, uint64_t length, const Source& like) {
    add_zeros(offset);
    for (uint64_t done = 0; done < length; done += kLeafSize) add(std::min(kLeafSize, length - done), Piece::Kind::Other, within(like, done));
  }
  void add_segment(uint32_t segment, uint64_t offset) {
    add_zeros(offset);
    for (const Leaf& leaf : leaves_of(segment, b_.segments()[segment])) {
      const auto found = known_.find(leaf.digest);
      if (found != known_.end() && found->second.length == leaf.place.length) add(leaf.place.length, Piece::Kind::Same, found->second);
      else add(leaf.place.length, Piece::Kind::Other, like(leaf.place));
    }
  }

  // Bytes of the place from `offset` on, as many as a part may refer to.
  Source within(Source place, uint64_t offset) const {
    if (place.where == Where::None) return {};
    const auto& stored = a_.segments();
    const uint64_t length = place.where == Where::Manifest ? a_.file().manifest.size() : place.where == Where::Segment ? stored[place.segment].stored_len : stored[place.segment].leaf_table.size();
    if (offset >= length) return {};
    place.offset = offset;
    place.length = static_cast<uint32_t>(std::min<uint64_t>(delta::kMaxPart, length - offset));
    return place;
  }
  Source table_like(uint32_t segment) const {
    const format::Segment& s = b_.file().opened->manifest().segments[segment];
    if (const auto same = by_digest_.find(s.digest); same != by_digest_.end()) return {Where::LeafTable, same->second, 0, 0};
    if (const auto named = by_name_.find(s.name); named != by_name_.end()) return {Where::LeafTable, named->second, 0, 0};
    return {};
  }
  // Of weights, the place of the tensor that the leaf is of; else the same place of the segment of that name.
  Source like(const Source& leaf) const {
    const auto places = of_b_.find(leaf.segment);
    if (places != of_b_.end()) {
      const uint64_t middle = leaf.offset + leaf.length / 2;
      auto next = std::upper_bound(places->second.begin(), places->second.end(), middle, [](uint64_t at, const TensorPlace& p) { return at < p.offset; });
      if (next != places->second.begin()) --next;
      if (const auto there = tensors_of_a_.find(next->name); there != tensors_of_a_.end()) {
        const auto [segment, offset] = there->second;
        const uint64_t forward = offset + leaf.offset;  // both are below 2^34
        return within({Where::Segment, segment, 0, 0}, forward >= next->offset ? forward - next->offset : 0);
      }
    }
    const auto named = by_name_.find(b_.file().opened->manifest().segments[leaf.segment].name);
    return named == by_name_.end() ? Source{} : within({Where::Segment, named->second, 0, 0}, leaf.offset);
  }

  const PlacedBytes &a_, &b_;
  const std::map<uint32_t, std::vector<TensorPlace>> of_b_;
  std::map<std::string, uint32_t> by_name_;   // segments of a
  std::map<Digest, uint32_t> by_digest_;
  std::map<Digest, Source> known_;            // leaves of a
  std::map<std::string, std::pair<uint32_t, uint64_t>> tensors_of_a_;
  std::vector<Piece> pieces_;
  uint64_t at_ = 0;
};

}  // namespace

Result<PlacedBytes> PlacedBytes::of(const ContainerFile& file) {
  PlacedBytes out(file);
  MLC_ASSIGN(out.segments_, stored_segments(file));
  out.in_.open(file.path, std::ios::binary);
  return out;
}

Result<std::vector<std::byte>> PlacedBytes::read_file(uint64_t offset, uint64_t length) {
  std::vector<std::byte> bytes(length);
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(offset));
  in_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
  if (!in_ || static_cast<uint64_t>(in_.gcount()) != length) return Status(Code::NotFound, file_->path + ": cannot be read completely");
  return bytes;
}

Result<std::vector<std::byte>> PlacedBytes::read(const Source& source) {
  if (source.where == Where::Manifest) return part_of(file_->manifest, source);
  if (source.segment >= segments_.size()) return no_such_place(source.segment, segments_.size());
  const container::StoredSegment& stored = segments_[source.segment];
  if (!stored.present)
    return Status(Code::NotFound, file_->path + " lacks segment " + format::quoted(file_->opened->manifest().segments[source.segment].name) + ", of which the delta takes bytes")
        .hint("mlpack fill " + shell_path(file_->path) + " --from ORIGINAL");
  if (source.where == Where::LeafTable) return part_of(stored.leaf_table, source);
  if (!range_within(source.offset, source.length, stored.stored_len))
    return Status(Code::Malformed, "it refers to {} bytes from {} on, of {}", source.length, source.offset, stored.stored_len);
  return read_file(file_->opened->segment_offset(source.segment) + source.offset, source.length);
}

std::vector<Leaf> leaves_of(uint32_t segment, const container::StoredSegment& stored) {
  const uint64_t count = format::leaf_count(stored.decoded_len);
  ByteCursor digests(stored.leaf_table);
  ByteCursor lengths = digests.at(count * sizeof(Digest));
  std::vector<Leaf> out;
  for (uint64_t k = 0, at = 0; k < count && !digests.failed(); ++k) {
    Leaf leaf;
    const Bytes digest = digests.bytes(sizeof(Digest));
    std::copy(digest.begin(), digest.end(), leaf.digest.begin());
    const uint64_t length = stored.codec == format::Codec::Zstd ? lengths.take<uint32_t>() : std::min(kLeafSize, stored.decoded_len - at);
    leaf.place = {Where::Segment, segment, static_cast<uint32_t>(length), at};
    at += length;
    out.push_back(leaf);
  }
  return out;
}

std::vector<Piece> pieces_of(const PlacedBytes& a, const PlacedBytes& b) { return PieceFinder(a, b).all(); }

}  // namespace mlc::cli
