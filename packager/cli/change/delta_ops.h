// diff --delta and apply as functions: what one container has that another one lacks, and the container that both make, bit for bit.
//
// Parts of a delta are leaves of the new file: what the old one has, wherever it lies there, is referred to; what it lacks is stored, as zstd against the leaf
// at its place where that is smaller. Nothing signs a delta: its result has the root and the signatures of the file that it was made of, or is not written.
#pragma once

#include <string>

#include "base/checked.h"
#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

struct DeltaOptions {
  std::string a, b, output;
  bool force = false;  // overwrite an output that is no delta
};
struct DeltaResult {
  Digest from{}, root{};  // roots of a and b
  uint64_t bytes = 0, bytes_a = 0, bytes_b = 0;
  uint64_t copied = 0;      // bytes of b that a has
  uint64_t num_stored = 0;  // parts of b that a lacks
};
[[nodiscard]] Result<DeltaResult> write_delta(const DeltaOptions& options);

struct ApplyOptions {
  std::string file, delta;
  std::string output;  // empty: the file itself
  bool force = false;  // overwrite an output that is no container
};
struct ApplyResult {
  Digest from{}, root{};
  std::string output;
  uint64_t bytes = 0, bytes_before = 0, bytes_delta = 0;
  size_t num_signatures = 0;
};
// BadSignature if the delta is for another container, or makes other bytes than it says.
[[nodiscard]] Result<ApplyResult> apply_delta(const ApplyOptions& options);

}  // namespace mlc::cli
