// Plans in which numbers of 8 bytes lie at an address that is 4 modulo 8: FlatBuffers' verifier lets them pass.
#pragma once

#include <cstring>
#include <vector>

#include "schema/generated/plan_generated.h"

namespace mlc::test {

// Moves what the last step of the first function expects of its service behind the end of the plan, out of alignment.
inline void misalign_results(std::vector<std::byte>& plan) {
  namespace fbp = mlc::fb::plan;
  const auto base = reinterpret_cast<const uint8_t*>(plan.data());
  const auto* steps = fbp::GetPlan(base)->functions()->Get(0)->steps();
  const fbp::Step* step = steps->Get(steps->size() - 1);
  const auto* field = reinterpret_cast<const flatbuffers::Table*>(step)->GetAddressOf(fbp::Step::VT_RESULTS);
  const auto field_at = static_cast<size_t>(field - base);
  const auto from = static_cast<size_t>(reinterpret_cast<const uint8_t*>(step->results()) - base);
  const size_t bytes = sizeof(uint32_t) + step->results()->size() * sizeof(int64_t);
  const size_t to = (plan.size() + 7) / 8 * 8;  // the length is aligned, so the numbers behind it are not
  plan.resize(to + bytes);
  std::memcpy(plan.data() + to, plan.data() + from, bytes);
  const auto offset = static_cast<uint32_t>(to - field_at);
  std::memcpy(plan.data() + field_at, &offset, sizeof offset);
}

}  // namespace mlc::test
