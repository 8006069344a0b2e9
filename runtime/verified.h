// Bytes that were checked against the signed root of a container and are stored in memory that no other process can write.
//
// Loaders take nothing else, so no code path leads from a file to executable memory around the checks. Only the
// container reader makes one (through VerifiedBytesMaker, which it defines); a test says that others cannot.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/checked.h"
#include "runtime/memory/aligned_block.h"

namespace mlc {

class VerifiedBytes {
 public:
  VerifiedBytes(VerifiedBytes&&) = default;
  VerifiedBytes& operator=(VerifiedBytes&&) = default;
  VerifiedBytes(const VerifiedBytes&) = delete;
  VerifiedBytes& operator=(const VerifiedBytes&) = delete;

  // Valid as long as this object; the same address after a move.
  Bytes bytes() const { return {bytes_.data(), static_cast<size_t>(bytes_.size())}; }
  // The segment it came from, for messages.
  const std::string& name() const { return name_; }

 private:
  friend class VerifiedBytesMaker;
  VerifiedBytes(AlignedBlock bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}

  AlignedBlock bytes_;
  std::string name_;
};

}  // namespace mlc
