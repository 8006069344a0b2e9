// The bytes of one segment on their way into a file: pieces with zero alignment between them, then, sealed, the stored
// form with its leaf table. Raw pieces are never copied.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "packager/container/builder.h"
#include "packager/container/zstd_frames.h"
#include "schema/format.h"

namespace mlc::container {

class SegmentBytes {
 public:
  // Appends at the next multiple of `alignment`; returns the offset.
  uint64_t append(Content content, uint64_t alignment);
  uint64_t decoded_len() const { return len_; }

  // Chooses the codec (raw unless `compression` is given and helps), compresses, hashes. Again only after an append.
  [[nodiscard]] Status seal(std::optional<Effort> compression);

  // After seal.
  format::Codec codec() const { return codec_; }
  uint64_t stored_len() const { return codec_ == format::Codec::Zstd ? compressed_.size() : len_; }
  const format::Digest& digest() const { return digest_; }
  // n digests, for zstd n u32 frame lengths, zeros to a multiple of 32.
  std::vector<std::byte> leaf_table() const;
  // Calls `visit` with the stored bytes in order, in pieces of any size; stops at the first failure.
  [[nodiscard]] Status for_each_stored(const std::function<Status(Bytes)>& visit) const;

 private:
  struct Piece {
    uint64_t offset;
    Content content;
  };
  [[nodiscard]] Status for_each_decoded(const std::function<Status(Bytes)>& visit) const;

  std::vector<Piece> pieces_;
  uint64_t len_ = 0;
  bool sealed_ = false;
  format::Codec codec_ = format::Codec::Raw;
  std::vector<std::byte> compressed_;
  std::vector<uint32_t> frame_lengths_;
  std::vector<format::Digest> leaves_;
  format::Digest digest_{};
};

}  // namespace mlc::container
