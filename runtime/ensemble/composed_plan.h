// Plans whose segments may run on different devices.
//
// All variants of a container have the same functions (spec/plan.md, section 6). Beside a segment "main" they may have the program
// "main.*", which calls segments that do the same together. In a composed plan "main" is a program that calls stages: each of them is
// some of these segments, neighbours, as one (joined.h), for one part.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "runtime/ensemble/mapper.h"
#include "schema/plan/plan.h"

namespace mlc::ensemble {

// The program that stands for segment `function`; none if there is none that may. It calls segments only, each at most once,
// and values have as many axes where they are taken as where they are made.
std::optional<uint32_t> cut_of(const exec::Plan& plan, uint32_t function);

// A segment that is to run in stages.
struct Staged {
  uint32_t function = 0;     // with a cut
  std::vector<Stage> stages;
};
struct Composition {
  exec::Plan front;               // what the executor runs: in it those segments are programs that call their stages
  std::vector<exec::Plan> plans;  // of each part, with the stages behind the functions that it had
  std::vector<uint32_t> place;    // of each function of all of these: its part
};
// `plans` of the parts have the same functions; `place` is the part of each that is in no stage. Unsupported where segments cannot
// be joined.
Result<Composition> compose_plan(std::vector<exec::Plan> plans, const std::vector<Staged>& staged, std::vector<uint32_t> place);

// Whether segments of one may run in place of those of the other: function by function they have the same name and ports.
// Malformed with the first that differs.
Status have_same_functions(const exec::Plan& a, const exec::Plan& b);

}  // namespace mlc::ensemble
