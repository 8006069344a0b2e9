// relabel as a function: what a container says of itself and of its answers, without compiling.
#pragma once

#include <string>
#include <vector>

#include "packager/cli/change/rewrite.h"

namespace mlc::cli {

struct RelabelOptions {
  std::string file, output;           // `output` empty: the file itself
  std::vector<std::string> labels;    // [NAME=]FILE: a list in place of the one that steps call NAME
  std::string pipeline;               // a pipeline.json with the same compiled steps; lists that it names are beside it
  std::vector<std::string> metadata;  // KEY=VALUE: id, version, title, licence
  Resign resign;
  bool force = false;                 // overwrite an output that is no container
};
struct Relabelled : Rewritten {
  std::vector<std::string> changed;  // assets and keys, in this order
};
[[nodiscard]] Result<Relabelled> relabel_container(const RelabelOptions& options);

}  // namespace mlc::cli
