// What a pull does with the bytes of blobs that several requests bring: each reader has its part of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "packager/container/output_file.h"
#include "registry/leaves.h"
#include "registry/net/client.h"

namespace mlc::registry {

[[nodiscard]] Status wrong_bytes(const std::string& what, const Digest& expected, const Digest& found);
// kMaxCuts of them without anything between are too many. `cuts`: how many there were.
[[nodiscard]] Status count_cut(const std::string& host, const std::string& why, bool got_further, int& cuts);

// The digests of blobs that follow each other, from their bytes in order.
class BlobDigests {
 public:
  // `blobs` must outlive it.
  explicit BlobDigests(std::span<const Descriptor> blobs) : blobs_(blobs) {}
  void update(Bytes bytes);
  struct Wrong {
    Digest expected{}, found{};
    uint64_t begin = 0, end = 0;  // of the blob, in all of them
  };
  // Those that have another digest than their descriptor says; to be asked when all bytes were there.
  [[nodiscard]] std::vector<Wrong> finish();

 private:
  void end_blob();

  const std::span<const Descriptor> blobs_;
  std::vector<Wrong> wrong_;
  Sha256 sha_;
  size_t index_ = 0;
  uint64_t begin_ = 0, in_blob_ = 0;
};

// What all readers of a pull share.
struct Transfer {
  std::string host;
  uint64_t& requests;  // how many there were
};

// Goes on where a cut ended it. `transfer` must outlive it.
class SteadyReader : public PartReader {
 public:
  explicit SteadyReader(Transfer& transfer) : transfer_(transfer) {}
  std::optional<Part> next() final;
  Status was_cut(const std::string& why) final;

 private:
  virtual std::optional<Part> rest() const = 0;
  virtual void starts_at(uint64_t) {}
  virtual void forget_unfinished_leaf() {}

  Transfer& transfer_;
  uint64_t asked_at_ = 0;
  int cuts_ = 0;
};

// Bytes [begin, end) of the blobs, as they are.
class BytesReader final : public SteadyReader {
 public:
  using Sink = std::function<Status(uint64_t at, Bytes bytes)>;
  BytesReader(Transfer& transfer, uint64_t begin, uint64_t end, Sink sink) : SteadyReader(transfer), at_(begin), end_(end), sink_(std::move(sink)) {}
  Status take(Bytes bytes) override;

 private:
  std::optional<Part> rest() const override;

  uint64_t at_;
  const uint64_t end_;
  const Sink sink_;
};

// Cuts the bytes into leaves, which are ordered by offset, and writes those that are right. Bytes between leaves are dropped. A wrong one
// goes to `wrong`, or is an error where that is null. `out`, the leaves and `wrong` must outlive it.
class LeafReader final : public SteadyReader {
 public:
  // `file_begin`: where the file begins in the blobs.
  LeafReader(Transfer& transfer, std::span<const Leaf> leaves, uint64_t file_begin, container::OutputFile& out, std::vector<Leaf>* wrong)
      : SteadyReader(transfer), leaves_(leaves), file_begin_(file_begin), out_(out), wrong_(wrong) {}
  Status take(Bytes bytes) override;

 private:
  std::optional<Part> rest() const override;
  void starts_at(uint64_t offset) override { at_ = offset - file_begin_; }
  void forget_unfinished_leaf() override { buffer_.clear(); }
  Status finish(const Leaf& leaf);

  const std::span<const Leaf> leaves_;
  const uint64_t file_begin_;
  container::OutputFile& out_;
  std::vector<Leaf>* const wrong_;
  std::vector<std::byte> buffer_;
  size_t done_ = 0;
  uint64_t at_ = 0;  // in the file
};

}  // namespace mlc::registry
