// The CPU targets as code; the rows are in targets.tbl.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "schema/features.h"

namespace mlc {

struct TargetRow {
  std::string_view name;
  Machine machine;
  std::string_view extends;             // name of the row it builds on, or empty
  std::array<Feature, 10> adds;         // Feature::None after the last
};

inline constexpr auto kTargets = std::to_array<TargetRow>({
#define MLC_TARGET(name, machine, extends, ...)  \
  TargetRow{name, Machine::machine, extends, [] { \
    using enum Feature;                           \
    return std::array<Feature, 10>{__VA_ARGS__};  \
  }()},
#include "schema/targets.tbl"
#undef MLC_TARGET
});

constexpr const TargetRow* target_named(std::string_view name) {
  for (const TargetRow& t : kTargets)
    if (t.name == name) return &t;
  return nullptr;
}

// Whether a target differs from the one it extends by instructions for ir::Op::Dot only. Those with SVE have vectors of another length.
constexpr bool differs_by_dots(const TargetRow& target) {
  for (Feature f : target.adds)
    if (f == Feature::A64Sve) return false;
  return target.name.find('+') != target.name.npos;
}

// Calls visit(Feature) for each feature of the target, those of the targets it extends first.
template <class Visit>
constexpr void for_each_feature(const TargetRow& target, Visit&& visit) {
  if (const TargetRow* base = target_named(target.extends)) for_each_feature(*base, visit);
  for (Feature f : target.adds)
    if (f != Feature::None) visit(f);
}

}  // namespace mlc
