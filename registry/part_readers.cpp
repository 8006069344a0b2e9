#include "registry/part_readers.h"

#include <algorithm>

namespace mlc::registry {

Status wrong_bytes(const std::string& what, const Digest& expected, const Digest& found) {
  return Status(Code::BadSignature, 3102, "{} does not match its digest, also when it was asked for once more", what)
      .fact("expected  " + digest_text(expected))
      .fact("found     " + digest_text(found));
}

Status count_cut(const std::string& host, const std::string& why, bool got_further, int& cuts) {
  cuts = got_further ? 1 : cuts + 1;
  if (cuts < kMaxCuts) return ok();
  return Status(Code::Registry, "{} ends the transfer again and again: {}", host, why);
}

void BlobDigests::update(Bytes bytes) {
  while (!bytes.empty() && index_ < blobs_.size()) {
    const auto taken = static_cast<size_t>(std::min<uint64_t>(bytes.size(), blobs_[index_].size - in_blob_));
    sha_.update(bytes.first(taken));
    in_blob_ += taken;
    bytes = bytes.subspan(taken);
    if (in_blob_ == blobs_[index_].size) end_blob();
  }
}

void BlobDigests::end_blob() {
  const Descriptor& blob = blobs_[index_++];
  const Digest found = std::exchange(sha_, Sha256()).finish();
  if (found != blob.digest) wrong_.push_back({blob.digest, found, begin_, begin_ + blob.size});
  begin_ += std::exchange(in_blob_, 0);
}

std::vector<BlobDigests::Wrong> BlobDigests::finish() {
  if (index_ < blobs_.size()) end_blob();  // one without bytes, or one that is not complete
  return std::move(wrong_);
}

std::optional<PartReader::Part> SteadyReader::next() {
  const auto part = rest();
  if (!part) return part;
  ++transfer_.requests;
  asked_at_ = part->offset;
  starts_at(part->offset);
  return part;
}

Status SteadyReader::was_cut(const std::string& why) {
  forget_unfinished_leaf();
  const auto part = rest();
  return count_cut(transfer_.host, why, !part || part->offset > asked_at_, cuts_);
}

Status BytesReader::take(Bytes bytes) {
  const uint64_t here = std::exchange(at_, at_ + bytes.size());
  return sink_(here, bytes);
}

std::optional<PartReader::Part> BytesReader::rest() const {
  if (at_ >= end_) return std::nullopt;
  return Part{at_, end_ - at_};
}

std::optional<PartReader::Part> LeafReader::rest() const {
  if (done_ == leaves_.size()) return std::nullopt;
  // The end of a blob may be in the middle of a leaf.
  const uint64_t begin = leaves_[done_].offset + buffer_.size(), end = leaves_.back().offset + leaves_.back().length;
  return Part{file_begin_ + begin, end - begin};
}

Status LeafReader::take(Bytes bytes) {
  while (!bytes.empty() && done_ < leaves_.size()) {
    const Leaf& leaf = leaves_[done_];
    if (at_ < leaf.offset) {
      const auto skipped = static_cast<size_t>(std::min<uint64_t>(leaf.offset - at_, bytes.size()));
      at_ += skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    const size_t taken = std::min(bytes.size(), leaf.length - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(taken));
    at_ += taken;
    bytes = bytes.subspan(taken);
    if (buffer_.size() == leaf.length) MLC_RETURN_IF_ERROR(finish(leaf));
  }
  return ok();
}

Status LeafReader::finish(const Leaf& leaf) {
  ++done_;
  const Digest found = leaf_digest(buffer_);
  if (found == leaf.digest) MLC_RETURN_IF_ERROR(out_.write_at(leaf.offset, buffer_));
  else if (wrong_ != nullptr) wrong_->push_back(leaf);
  else return wrong_bytes("a leaf of " + std::to_string(leaf.length) + " bytes at " + std::to_string(leaf.offset), leaf.digest, found);
  buffer_.clear();
  return ok();
}

}  // namespace mlc::registry
