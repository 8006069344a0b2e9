// What two containers differ in, part by part, in bytes: weights, variants, pipelines and what else is beside them; and the steps of plans.
#pragma once

#include <string>
#include <vector>

#include "base/cli/json_tree.h"
#include "packager/cli/look.h"

namespace mlc::cli {

// Items of one kind of both files: those of one name that differ are `changed`, their bytes are those of the second file.
struct PartBytes {
  std::string part;  // "weights", "variants", "pipelines", "assets"
  struct Sum {
    uint64_t count = 0, bytes = 0;
  };
  Sum changed, only_a, only_b, same;
};
[[nodiscard]] std::vector<PartBytes> part_bytes(const format::Manifest& a, const format::Manifest& b);

// A step of a variant's plan, by the nodes of the model that it is of, which one file has more often than the other one.
struct StepDifference {
  std::string variant, program, step;
  uint64_t times_a = 0, times_b = 0;
};
// Of variants that both files have. Plans that either copy lacks are left out.
[[nodiscard]] Result<std::vector<StepDifference>> step_differences(const OpenContainer& a, const OpenContainer& b);

}  // namespace mlc::cli
