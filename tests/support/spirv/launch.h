// Launches an emitted kernel on the executor as the loader of Vulkan would: bindings, push constants, workgroups (schema/gpu_module.h).
#pragma once

#include "schema/gpu_module.h"
#include "tests/support/spirv/executor.h"

namespace mlc::testing::spirv {

struct Outcome {
  std::string error;            // of the executor; empty: it ran
  uint32_t fault = 0, launch = 0;  // what the fault buffer holds
};

struct Launch {
  std::vector<std::span<std::byte>> buffers;
  std::vector<int64_t> scalars;
  uint32_t tiles = 0, number = 7;
  uint32_t first = 0;     // tiles before this one are left out
  uint32_t row = 65535;  // workgroups in x
  Manners manners{};
  uint64_t max_steps = 1'000'000'000;
  lanes::Counts* counts = nullptr;
};

inline Outcome run(Executor& executor, const mlc::gpu::Entry& entry, const Launch& l) {
  if (!executor.error().empty()) return {executor.error()};
  if (l.buffers.size() != entry.num_buffers || l.scalars.size() != entry.num_scalars) return {"other arguments than the entry has"};
  lanes::Memory memory;
  const auto append = [](std::vector<std::byte>& to, const void* data, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    to.insert(to.end(), bytes, bytes + size);
  };
  executor.buffers.clear();
  executor.push.clear();
  uint32_t binding = 0;
  for (; binding < l.buffers.size(); ++binding)
    executor.buffers[binding] = memory.add(l.buffers[binding], binding >= 64 || (entry.written >> binding & 1));
  std::vector<std::byte> scalars;
  for (const int64_t s : l.scalars) append(scalars, &s, 8);
  const uint32_t head[4] = {l.tiles, l.number, 0, 0};
  append(executor.push, head, sizeof head);
  if (l.scalars.size() <= mlc::gpu::kMaxPushScalars) executor.push.insert(executor.push.end(), scalars.begin(), scalars.end());
  else executor.buffers[binding++] = memory.add(scalars, false);
  uint32_t fault[2] = {0, 0};
  if (entry.may_fault) executor.buffers[binding++] = memory.add(std::as_writable_bytes(std::span(fault)), true);
  // More groups than tiles: the last ones find nothing to do.
  lanes::Launch launch;
  launch.lanes = uint32_t{entry.lanes[0]} * entry.lanes[1] * entry.lanes[2];
  launch.grid = {std::min(l.tiles, l.row), std::max(1u, (l.tiles + l.row - 1) / l.row), 1};
  launch.first = l.first;
  launch.shared_bytes = entry.shared_bytes;
  if (entry.subgroup_lanes) executor.pin_subgroup(entry.subgroup_lanes);
  launch.max_steps = l.max_steps;
  launch.counts = l.counts;
  Outcome out;
  if (l.tiles) out.error = lanes::run(executor, memory, launch);
  out.fault = fault[0], out.launch = fault[1];
  return out;
}

inline Outcome run(std::span<const uint32_t> words, const mlc::gpu::Entry& entry, const Launch& l) {
  Executor executor(words, l.manners);
  return run(executor, entry, l);
}

}  // namespace mlc::testing::spirv
