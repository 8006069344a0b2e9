#include <algorithm>

#include "schema/features.h"
#include "targets/family.h"
#include "targets/llvm/host.h"

namespace mlc::targets {

Target target_of_row(std::string_view name, Family family, std::string triple) {
  Target t;
  t.name = name;
  t.family = family;
  t.llvm_triple = std::move(triple);
  const TargetRow* row = target_named(name);
  assert(row && "a target without a row in schema/targets.tbl");
  if (name.find('+') != std::string_view::npos) t.base = row->extends;
  for_each_feature(*row, [&](Feature f) {
    const size_t row = feature_index(f);
    t.features.emplace_back(kFeatures[row].name);
    for (std::string_view rest = kFeatures[row].llvm; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      t.llvm_features.push_back("+" + std::string(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  });
  std::sort(t.features.begin(), t.features.end());
  return t;
}

bool has_feature(const Target& target, std::string_view name) {
  return std::binary_search(target.features.begin(), target.features.end(), name);
}

std::span<const Target> all_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all;
    x86::add_targets(all);
    aarch64::add_targets(all);
    riscv::add_targets(all);
    portable::add_targets(all);
    return all;
  }();
  return targets;
}

const Target* find_target(std::string_view name) {
  for (const Target& t : all_targets())
    if (t.name == name) return &t;
  return nullptr;
}

const Target* native_target() {
  const Target* best = nullptr;
  const Family host = host_family();
  for (const Target& t : all_targets()) {
    if (t.family != host || !host_has(t.llvm_features)) continue;
    if (!best || t.features.size() > best->features.size()) best = &t;
  }
  return best ? best : find_target("portable");
}

}  // namespace mlc::targets
