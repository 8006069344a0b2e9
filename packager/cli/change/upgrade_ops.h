// upgrade as a function: a container of an older mlpack in the form that this one writes, around segments that stay as they are.
#pragma once

#include <string>

#include "packager/cli/build/self_test.h"
#include "packager/cli/change/rewrite.h"

namespace mlc::cli {

struct UpgradeOptions {
  std::string file, output;  // `output` empty: the file itself
  Resign resign;
  bool force = false;  // overwrite an output that is no container
};
struct Upgraded : Rewritten {
  bool is_current = false;  // it was in this form before: root and signatures stay
  SelfTestReport tested;    // golden vectors of the new file; of a file that no trusted key has signed, in its portable form
};
// SelfTest, and no file, if a golden vector gives another answer.
[[nodiscard]] Result<Upgraded> upgrade_container(const UpgradeOptions& options);

}  // namespace mlc::cli
