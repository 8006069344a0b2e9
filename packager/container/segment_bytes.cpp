#include "packager/container/segment_bytes.h"

#include <array>

#include "schema/placement.h"
#include "signing/hash_tree.h"

namespace mlc::container {
namespace {

constexpr std::array<std::byte, format::kPackedAlign> kZeros{};

// A segment must be smaller when compressed, and must not expand more than readers accept.
bool pays(uint64_t stored, uint64_t decoded) {
  return stored < decoded && decoded / format::kMaxZstdRatio <= stored;
}

}  // namespace

uint64_t SegmentBytes::append(Content content, uint64_t alignment) {
  uint64_t offset = (len_ + alignment - 1) / alignment * alignment;
  uint64_t end = offset + view(content).size();
  pieces_.push_back({offset, std::move(content)});
  len_ = end;
  sealed_ = false;
  return offset;
}

Status SegmentBytes::for_each_decoded(const std::function<Status(Bytes)>& visit) const {
  uint64_t at = 0;
  for (const Piece& piece : pieces_) {
    Bytes bytes = view(piece.content);
    if (piece.offset > at) MLC_RETURN_IF_ERROR(visit(Bytes(kZeros).first(piece.offset - at)));
    if (!bytes.empty()) MLC_RETURN_IF_ERROR(visit(bytes));
    at = piece.offset + bytes.size();
  }
  return ok();
}

Status SegmentBytes::seal(std::optional<Effort> compression) {
  if (sealed_) return ok();
  codec_ = format::Codec::Raw;
  compressed_.clear();
  frame_lengths_.clear();
  leaves_.clear();
  if (compression) {
    std::vector<std::byte> joined;
    joined.reserve(len_);
    MLC_RETURN_IF_ERROR(for_each_decoded([&](Bytes bytes) {
      joined.insert(joined.end(), bytes.begin(), bytes.end());
      return ok();
    }));
    MLC_ASSIGN(Frames frames, compress(joined, *compression));
    if (pays(frames.stored.size(), len_)) {
      codec_ = format::Codec::Zstd;
      compressed_ = std::move(frames.stored);
      frame_lengths_ = std::move(frames.lengths);
    }
  }
  if (codec_ == format::Codec::Zstd) {
    size_t at = 0;
    for (uint32_t length : frame_lengths_) {
      leaves_.push_back(leaf_digest(Bytes(compressed_).subspan(at, length)));
      at += length;
    }
    digest_ = segment_digest(static_cast<uint8_t>(codec_), compressed_.size(), len_, leaves_);
  } else {
    RawSegmentHasher hasher;
    MLC_RETURN_IF_ERROR(for_each_decoded([&](Bytes bytes) {
      hasher.update(bytes);
      return ok();
    }));
    digest_ = hasher.finish();
    leaves_ = hasher.leaves();
  }
  sealed_ = true;
  return ok();
}

std::vector<std::byte> SegmentBytes::leaf_table() const {
  std::vector<std::byte> table;
  table.reserve(format::leaf_table_len(codec_, leaves_.size()));
  for (const format::Digest& leaf : leaves_) table.insert(table.end(), leaf.begin(), leaf.end());
  for (uint32_t length : frame_lengths_)
    for (unsigned i = 0; i < 4; ++i) table.push_back(static_cast<std::byte>(length >> (8 * i)));
  table.resize(format::leaf_table_len(codec_, leaves_.size()));
  return table;
}

Status SegmentBytes::for_each_stored(const std::function<Status(Bytes)>& visit) const {
  return codec_ == format::Codec::Zstd ? visit(compressed_) : for_each_decoded(visit);
}

}  // namespace mlc::container
