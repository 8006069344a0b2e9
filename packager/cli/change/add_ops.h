// add as a function: one more target for a container that is there, compiled from its model.
#pragma once

#include <string>
#include <vector>

#include "packager/cli/change/rewrite.h"
#include "packager/compile/build.h"

namespace mlc::cli {

struct AddOptions {
  std::string file, output;     // `output` empty: the file itself
  compile::BuildOptions build;  // model, pipeline and targets as `build` takes them; what it says of output, id and signature is not used
  Resign resign;
  bool force = false;           // overwrite an output that is no container
};
struct Added : Rewritten {
  std::vector<std::string> added;     // variants that are new to the manifest
  std::vector<std::string> restored;  // variants that this copy lacked
  std::vector<std::string> equal;     // targets whose code the file has already, perhaps under the name of a simpler target
};
// Where nothing is new to the manifest, root and signatures stay (`root` is `parent`).
[[nodiscard]] Result<Added> add_targets(const AddOptions& options);

}  // namespace mlc::cli
