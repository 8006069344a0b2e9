// extract as a function: what is in a container, as files that other programs read.
//
// Names of a container are never paths: files have names of ours, or labels, which have no separators (spec/container.md, section 2). The folder has a
// contents.json, written last, that says what each of them is.
#pragma once

#include <string>
#include <vector>

#include "base/cli/json_tree.h"
#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

// Known words of --what, in the order of their files.
[[nodiscard]] const std::vector<std::string>& extract_words();

struct ExtractOptions {
  std::string file, output;       // `output`: a folder that is new or empty
  std::vector<std::string> what;  // of extract_words()
  bool force = false;             // into a folder that has files
};
struct ExtractedFile {
  std::string path, what, name;  // below the folder; what it is; how the container calls it
  uint64_t bytes = 0;
};
struct ExtractResult {
  Digest root{};
  std::vector<ExtractedFile> files;
};
[[nodiscard]] Result<ExtractResult> extract(const ExtractOptions& options);

}  // namespace mlc::cli
