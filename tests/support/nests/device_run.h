// Runs kernels for devices as their emitters write them, on the executors of SPIR-V and PTX: a Runner for lowered.h.
#pragma once

#include "schema/gpu_module.h"
#include "targets/families.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/ptx/launch.h"
#include "tests/support/spirv/launch.h"

namespace mlc::test {

// What launches asked of memory is added to `counts`.
inline Runner on_executor(const targets::Target& target, testing::lanes::Counts& counts) {
  return [&target, &counts](const loop::Kernel& kernel, const loop::Run& run) -> Result<int32_t> {
    auto module = targets::emit_module(target, std::span(&kernel, 1));
    if (!module.ok()) return module.status();
    MLC_RETURN_IF_ERROR(targets::audit_module(target, module->bytes));
    std::vector<int64_t> scalars;
    for (const ir::Sym* s : kernel.scalars) scalars.push_back(run.value(s).value());
    const auto first = static_cast<uint32_t>(run.tile_begin), end = static_cast<uint32_t>(run.tile_end);
    std::string error;
    uint32_t fault = 0;
    if (target.name.starts_with("cuda")) {
      const testing::ptx::LoadedModule loaded(module->bytes);
      if (!loaded.error().empty()) return Status(Code::Internal, loaded.error());
      const auto outcome = testing::ptx::run_kernel(loaded, 0, run.buffers, scalars, end, 7, first, &counts);
      error = outcome.error, fault = outcome.fault[0];
    } else {
      MLC_ASSIGN(const gpu::Module decoded, gpu::decode(module->bytes));
      const std::vector<std::byte>& bytes = decoded.images[0].bytes;
      std::vector<uint32_t> words(bytes.size() / 4);
      std::memcpy(words.data(), bytes.data(), bytes.size());
      testing::spirv::Launch launch{.buffers = run.buffers, .scalars = scalars, .tiles = end, .first = first, .counts = &counts};
      const auto outcome = testing::spirv::run(words, decoded.entries[0], launch);
      error = outcome.error, fault = outcome.fault;
    }
    if (!error.empty()) return Status(Code::Internal, kernel.name + " on the executor for " + target.name + ": " + error);
    return static_cast<int32_t>(fault);
  };
}

// Random inputs through the Loop interpreter and through the executor: the same bytes.
inline testing::lanes::Counts check_emitted(ir::Context& ctx, const nest::Function& f, const targets::Target& target, const Symbols& symbols = {},
                                            const schedule::Schedule* how = nullptr, const lower::MathExpander& math = test_math) {
  std::mt19937 rng(3);
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(random_tensor(rng, f.arrays[a].dtype, shape_of(f.arrays[a], symbols)));
  testing::lanes::Counts counts;
  const Lowered want = run_lowered(ctx, f, inputs, target, symbols, math, 1, how);
  const Lowered got = run_lowered(ctx, f, inputs, target, symbols, math, 1, how, on_executor(target, counts));
  CHECK(got.fault == want.fault);
  for (size_t k = 0; k < want.outputs.size(); ++k) CHECK(got.outputs[k].bytes == want.outputs[k].bytes);
  return counts;
}

}  // namespace mlc::test
