// Runs a plan that may say anything, with a module and tensors made up for it: what must never happen is an access
// outside the memory of a buffer, an abort or an exception. Shared by the mutation tests and the fuzzer of plans.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/plan/execute/executor.h"
#include "runtime/plan/execute/service.h"

namespace mlc::test {

inline constexpr uint32_t kAnyKernels = 4, kAnyTensors = 3;
// What an executor may hold: so much that most plans run, and so little that values take each other's memory all the time.
inline constexpr uint64_t kAnyMemory = 1 << 20, kTightMemory = 448 << 10;

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using AnyBlock = std::unique_ptr<std::byte, FreeDeleter>;
// As long as the contract of kernels promises, and not a byte longer, for a sanitizer to see what goes beyond.
inline AnyBlock any_block(uint64_t bytes) {
  const uint64_t padded = std::max<uint64_t>(64, (bytes + 63) / 64 * 64);
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, padded));
  std::memset(p, 1, padded);
  return AnyBlock(p);
}

inline std::optional<uint64_t> any_tensor_bytes(uint32_t tensor, uint32_t copy) {
  constexpr uint64_t kBytes[kAnyTensors] = {64, 100, 4096};
  return tensor < kAnyTensors && copy == 0 ? std::optional(kBytes[tensor]) : std::nullopt;
}

// Kernels that read every byte they are promised and write every byte they may write.
class AnyModule final : public KernelModule {
 public:
  uint32_t num_kernels() const override { return kAnyKernels; }
  uint64_t scratch_bytes(uint32_t k) const override { return k * 100; }
  Status accepts(uint32_t k, const LaunchForm& form) const override {
    Form& known = forms_[k];
    if (!known.seen) known.writable.assign(form.writable.begin(), form.writable.end());
    known.writable.resize(std::min(known.writable.size(), form.writable.size()));  // what all launches have
    for (size_t i = 0; i < known.writable.size(); ++i) known.writable[i] &= form.writable[i];
    known.seen = true;
    return ok();
  }
  // Like compiled code it reads lines of 64 bytes to their end.
  int32_t run(uint32_t k, const MlrunLaunch& l, uint32_t begin, uint32_t end, WorkMeter&) const override {
    if (k >= kAnyKernels || begin >= end || l.worker >= l.workers) std::abort();
    if (l.worker != 0) return 0;  // one of them is enough, and two would race
    const std::vector<uint8_t>& writable = forms_[k].writable;
    unsigned sum = 0;
    for (size_t i = 0; i < writable.size(); ++i) {
      auto* p = static_cast<volatile uint8_t*>(l.buffers[i]);
      if (!p || reinterpret_cast<uintptr_t>(p) % 64 != 0 || l.lengths[i] > kAnyMemory + 4096) std::abort();
      for (uint64_t at = 0; at < (l.lengths[i] + 63) / 64 * 64; ++at) sum += p[at];
      if (writable[i])
        for (uint64_t at = 0; at < l.lengths[i]; ++at) p[at] = static_cast<uint8_t>(at);
    }
    if (k > 0) std::memset(l.scratch, 1, k * 100);
    return k == 3 && sum % 2 == 1 ? MLRUN_FAULT_INDEX : MLRUN_FAULT_NONE;
  }

 private:
  struct Form {
    bool seen = false;
    std::vector<uint8_t> writable;
  };
  mutable Form forms_[kAnyKernels];
};

class AnyConstants final : public exec::Constants {
 public:
  AnyConstants() {
    for (uint32_t t = 0; t < kAnyTensors; ++t) blocks_.push_back(any_block(*any_tensor_bytes(t, 0)));
  }
  Result<const std::byte*> acquire(uint32_t tensor, uint32_t copy) const override {
    if (!any_tensor_bytes(tensor, copy)) std::abort();
    return blocks_[tensor].get();
  }

 private:
  std::vector<AnyBlock> blocks_;
};

// Whatever services a plan asks for: they read every byte of their operands, and fill results of extents that follow from
// them. Every fourth result is none that a step wants.
inline std::vector<exec::Service> any_services(const exec::Plan& plan) {
  const auto run = [](const exec::Service&, exec::ServiceCall& call) -> Status {
    unsigned sum = 0;
    for (const exec::InputArg& in : call.inputs)
      for (uint64_t at = 0; at < in.bytes; ++at) sum += static_cast<const volatile uint8_t*>(in.data)[at];
    const std::vector<int64_t>& wanted = call.step.results;
    uint32_t result = 0;
    for (size_t at = 0; at < wanted.size(); ++result) {
      const auto dtype = static_cast<DType>(wanted[at]);
      uint64_t bytes = bytes_of(dtype);
      std::vector<int64_t> shape;
      for (int64_t k = 0; k < wanted[at + 1]; ++k) {
        const int64_t fixed = wanted[at + 2 + static_cast<size_t>(k)];
        shape.push_back(fixed >= 0 ? fixed : sum % 4 == 3 ? -1 : sum % 4);
        bytes *= static_cast<uint64_t>(shape.back());  // right where memory was given
      }
      at += 2 + shape.size();
      void* data = nullptr;
      MLC_RETURN_IF_ERROR(call.make(result, dtype, shape, data));
      std::memset(data, 1, bytes);
    }
    return sum % 7 == 6 ? Status(Code::Malformed, "no luck") : ok();
  };
  std::vector<exec::Service> services;
  for (const exec::Function& f : plan.functions)
    for (const exec::Step& s : f.steps)
      if (s.op == StepOp::Host && s.service != "none") services.push_back({s.service, run});
  return services;
}

// Shapes that have a chance to fit: extents that a port fixes, and `free` for the others.
inline std::vector<std::vector<int64_t>> shapes_for(const exec::Function& f, int64_t free) {
  std::vector<int64_t> fixed(f.num_symbols, -1);
  for (const exec::SymbolInstr& i : f.shape)
    if (i.op == exec::SymbolOp::Const) fixed[i.dst] = i.imm;
  std::vector<std::vector<int64_t>> shapes;
  for (const exec::Port& port : f.inputs) {
    auto& shape = shapes.emplace_back();
    for (exec::Symbol s : port.shape) shape.push_back(fixed[s] >= 0 ? fixed[s] : free);
  }
  return shapes;
}

struct AnyOutcome {
  bool decoded = false;
  int runs = 0, successes = 0;
};

inline AnyOutcome run_any_plan(Bytes bytes, WorkerPool& pool, uint64_t memory = kAnyMemory) {
  using namespace exec;
  AnyOutcome outcome;
  auto plan = decode_plan(bytes, {kAnyKernels, any_tensor_bytes});
  if (!plan) {
    if (plan.status().message.empty()) std::abort();
    return outcome;
  }
  outcome.decoded = true;
  AnyModule module;
  AnyConstants constants;
  const std::vector<Service> services = any_services(*plan);
  const Limits limits{.max_memory_bytes = memory, .max_steps = 2000};
  auto executor = Executor::create(*plan, module, constants, pool, limits, services);
  if (!executor) return outcome;
  // A plan may lie about what overlaps. Its parts would race then, and its answer be wrong, but within its own memory. So that no
  // checker calls that a race of ours, one thread executes the parts of all workers, in turns.
  (*executor)->set_order([turn = size_t{0}](size_t ready) mutable { return turn++ % ready; });
  for (uint32_t number = 0; number < std::min<size_t>(plan->functions.size(), 4); ++number) {
    const Function& f = plan->functions[number];
    std::vector<std::vector<int64_t>> inferred;
    for (int64_t free : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1} << 20, INT64_MAX}) {
      const auto shapes = shapes_for(f, free);
      std::vector<InputArg> inputs;
      std::vector<AnyBlock> blocks;
      uint64_t total = 0;
      for (size_t k = 0; k < f.inputs.size(); ++k) {
        auto count = checked_product(shapes[k]);
        auto size = count ? checked_mul(*count, bytes_of(f.inputs[k].dtype)) : std::nullopt;
        total += std::min<uint64_t>(size.value_or(UINT32_MAX), UINT32_MAX);
        inputs.push_back({f.inputs[k].dtype, shapes[k], nullptr, size.value_or(0)});
      }
      const bool fits = total <= kAnyMemory;
      std::vector<std::vector<InputArg>> lists(inputs.size());
      for (size_t k = 0; k < inputs.size() && fits; ++k) {
        if (f.inputs[k].list_depth == 0) {
          inputs[k].data = blocks.emplace_back(any_block(inputs[k].bytes)).get();
          continue;
        }
        // Two arrays of one axis, or lists of nothing.
        static constexpr int64_t kExtents[] = {1, 3};
        for (size_t i = 0; i < 2; ++i) {
          InputArg item{inputs[k].dtype, std::span(kExtents + i, 1), nullptr, 3 * bytes_of(inputs[k].dtype)};
          item.data = blocks.emplace_back(any_block(item.bytes)).get();
          item.list_depth = static_cast<uint8_t>(f.inputs[k].list_depth - 1);
          lists[k].push_back(item);
        }
        inputs[k].items = lists[k];
        inputs[k].list_depth = f.inputs[k].list_depth;
      }
      // The first output in memory of ours, the others in the executor's.
      std::vector<OutputArg> outputs(f.outputs.size());
      const Status known = (*executor)->infer(number, inputs, inferred);
      if ((!known.ok() && !f.is_program()) || !fits) continue;
      if (known.ok() && !outputs.empty()) {
        const auto count = checked_product(inferred[0]);
        const auto size = count ? checked_mul(*count, bytes_of(f.outputs[0].dtype)) : std::nullopt;
        if (size && *size <= kAnyMemory)
          outputs[0].data = blocks.emplace_back(any_block(*size)).get(), outputs[0].capacity = *size;
      }
      ++outcome.runs;
      const Status status = (*executor)->run(number, inputs, outputs);
      if (!status.ok()) {
        if (status.message.empty()) std::abort();
        continue;
      }
      ++outcome.successes;
      unsigned sum = 0;
      const auto look = [&sum](const auto& self, std::span<const OutputArg> all) -> void {
        for (const OutputArg& out : all) {
          for (uint64_t at = 0; at < out.bytes; ++at) sum += static_cast<const volatile uint8_t*>(out.data)[at];
          self(self, out.items);
        }
      };
      look(look, outputs);
      (void)sum;
    }
  }
  return outcome;
}

}  // namespace mlc::test
