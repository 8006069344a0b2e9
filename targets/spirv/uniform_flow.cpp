#include "targets/spirv/uniform_flow.h"

#include <algorithm>

namespace mlc::targets::spirv {

namespace {
constexpr int kMostRounds = 64;  // each goes once through the function; what our kernels need is the depth of their loops
}

uint32_t UniformFlow::open(bool is_loop) {
  constructs_.push_back({current_, is_loop, {}});
  return current_ = static_cast<uint32_t>(constructs_.size() - 1);
}

bool UniformFlow::holds(uint32_t bound) const {
  std::vector<bool> differs(bound), parts(constructs_.size()), within(constructs_.size());
  const auto any = [&](const std::vector<uint32_t>& ids) { return std::any_of(ids.begin(), ids.end(), [&](uint32_t id) { return differs[id]; }); };
  for (const uint32_t id : sources_) differs[id] = true;
  bool changed = true;
  for (int round = 0; changed; ++round) {
    if (round == kMostRounds) return false;
    changed = false;
    const auto set = [&](std::vector<bool>& flags, uint32_t at) {
      if (!flags[at]) flags[at] = true, changed = true;
    };
    // Parents come before their children.
    for (uint32_t c = 0; c < constructs_.size(); ++c) {
      if (any(constructs_[c].conditions)) set(parts, c);
      const uint32_t parent = constructs_[c].parent;
      if (parts[c] || (parent != kNone && within[parent])) set(within, c);
    }
    // A loop that some lanes leave earlier than others.
    for (const Exit& e : exits_)
      for (uint32_t c = e.from; c != e.loop && c != kNone; c = constructs_[c].parent)
        if (parts[c]) set(parts, e.loop);
    for (const Move& m : moves_)
      if (any(m.from) || (m.is_store && m.construct != kNone && within[m.construct])) set(differs, m.to);
  }
  return std::none_of(meetings_.begin(), meetings_.end(), [&](uint32_t c) { return c != kNone && within[c]; });
}

}  // namespace mlc::targets::spirv
