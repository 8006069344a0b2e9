// thin and fill as functions. The root of a container covers what its manifest says of every segment, whether this copy has it or not: a
// thinned copy keeps the root and the signatures, and what was left out is checked against the same root when it comes back.
#pragma once

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

struct ThinOptions {
  std::string file;
  std::vector<std::string> keep;  // names of variants; the portable one always stays
  std::string output;             // empty: the file itself
  bool force = false;             // overwrite an output that is no container
};
struct FillOptions {
  std::string file, from;  // `from`: a copy of the same container, or another one that holds the same segments
  std::string output;      // empty: the file itself
  bool force = false;
  bool may_find_nothing = false;  // a copy that is as it was is no error
};
struct CopyResult {
  Digest root{};
  std::string output;
  uint64_t bytes_before = 0, bytes_after = 0;
  std::vector<std::string> present, absent;  // variants of the copy that was written, in their order
  std::vector<std::string> changed;          // segments that were left out, or put back
  std::vector<std::string> lacking;          // segments that the copy still lacks
  size_t num_signatures = 0;                 // those of `file`, as they were
};

[[nodiscard]] Result<CopyResult> thin_container(const ThinOptions& options);
// Puts back what `from` has, by the digests that the root of `file` covers; BadSignature if that is nothing of what is absent.
[[nodiscard]] Result<CopyResult> fill_container(const FillOptions& options);

}  // namespace mlc::cli
