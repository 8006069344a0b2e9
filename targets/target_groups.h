// Names for several targets at once, as `mlpack build --target` takes them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "targets/target.h"

namespace mlc::targets {

struct TargetGroup {
  std::string_view name;
  std::string_view about;
  std::vector<const Target*> targets;
};

// What is built when nothing is said.
inline constexpr std::string_view kDefaultGroup = "common";

// Of processors; each has `portable`, so that a file runs everywhere whatever it was built for.
std::span<const TargetGroup> target_groups();
// Null if there is none of this name.
const TargetGroup* find_target_group(std::string_view name);

}  // namespace mlc::targets
