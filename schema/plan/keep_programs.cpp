// Functions of some programs of a plan.
#include <algorithm>
#include <utility>

#include "schema/plan/plan.h"

namespace mlc::exec {

void keep_programs(Plan& plan, std::span<const std::string_view> names) {
  constexpr uint32_t kUnknown = UINT32_MAX, kWanted = UINT32_MAX - 1;
  std::vector<uint32_t> to(plan.functions.size(), kUnknown);
  const auto want = [&](std::optional<uint32_t> function) {
    if (function) to[*function] = kWanted;
  };
  for (const std::string_view name : names) {
    want(plan.find(name));
    want(plan.find(std::string(name) + ".*"));  // the same in pieces (spec/plan.md, section 6)
  }
  if (plan.derive != kNoFunction) want(plan.derive);
  std::vector<Function> kept;
  for (uint32_t f = 0; f < plan.functions.size(); ++f) {  // steps call functions behind their own
    if (to[f] == kUnknown) continue;
    to[f] = static_cast<uint32_t>(kept.size());
    for (const Step& step : plan.functions[f].steps)
      for (const uint32_t called : step.functions) want(called);
    kept.push_back(std::move(plan.functions[f]));
  }
  plan.num_states = 0;
  for (Function& function : kept) {
    for (Step& step : function.steps)
      for (uint32_t& called : step.functions) called = to[called];
    for (const Buffer& buffer : function.buffers)
      if (buffer.kind == BufferKind::State) plan.num_states = std::max(plan.num_states, buffer.index + 1);
  }
  if (plan.derive != kNoFunction) plan.derive = to[plan.derive];
  plan.functions = std::move(kept);
}

}  // namespace mlc::exec
