#include "targets/target_groups.h"

#include <algorithm>
#include <array>

namespace mlc::targets {
namespace {

struct Row {
  std::string_view name, about;
  std::array<std::string_view, 16> targets;  // empty behind the last; none at all: each target
};

// Code for a target costs each build some seconds. What few kinds of machines have stands in `all` and in the group of these machines.
constexpr Row kRows[] = {
    {"common", "processors that most machines have",
     {"x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v3+vnni", "x86-64-v4", "x86-64-v4+vnni", "x86-64-v4+vnni+bf16", "armv8-a", "armv8-a+dotprod+fp16", "armv8-a+i8mm+bf16", "rv64gc", "portable"}},
    {"desktop", "PCs and laptops",
     {"x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v3+vnni", "x86-64-v4", "x86-64-v4+vnni", "x86-64-v4+vnni+bf16", "armv8-a", "armv8-a+dotprod+fp16", "armv8-a+i8mm+bf16", "portable"}},
    {"server", "machines of data centres",
     {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+vnni", "x86-64-v4+vnni+bf16", "x86-64-v4+amx", "armv8-a", "armv8-a+dotprod+fp16", "armv8-a+i8mm+bf16", "armv8-a+sve256", "armv8-a+sve512", "portable"}},
    {"edge", "boards, boxes and phones",
     {"x86-64-v2", "x86-64-v3", "x86-64-v3+vnni", "armv8-a", "armv8-a+dotprod+fp16", "armv8-a+i8mm+bf16", "rv64gc", "rv64gcv", "portable"}},
    {"all", "each of them", {}},
};

// A name that is none is null: the unit test finds it.
std::vector<TargetGroup> made() {
  std::vector<TargetGroup> groups;
  for (const Row& row : kRows) {
    TargetGroup group{row.name, row.about, {}};
    for (const std::string_view name : row.targets)
      if (!name.empty()) group.targets.push_back(find_target(name));
    if (group.targets.empty())
      for (const Target& target : all_targets()) group.targets.push_back(&target);
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::span<const TargetGroup> target_groups() {
  static const std::vector<TargetGroup> groups = made();
  return groups;
}

const TargetGroup* find_target_group(std::string_view name) {
  const auto groups = target_groups();
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const TargetGroup& group) { return group.name == name; });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace mlc::targets
