#include "tests/conformance/run/interpret_kernels.h"

#include "packager/loop/print.h"
#include "tests/conformance/run/execute.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

namespace mlc::conformance {
namespace {

class InterpretedModule final : public KernelModule {
 public:
  static Result<InterpretedModule> parse(const std::vector<std::string>& texts) {
    InterpretedModule module;
    for (const std::string& text : texts) {
      MLC_ASSIGN(std::vector<loop::Kernel> one, loop::parse(*module.ctx_, text));
      module.kernels_.push_back(std::move(one.at(0)));
    }
    return module;
  }

  uint32_t num_kernels() const override { return static_cast<uint32_t>(kernels_.size()); }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t k, const LaunchForm& form) const override {
    const loop::Kernel& kernel = kernels_[k];
    if (form.writable.size() != kernel.params.size() || form.num_scalars != kernel.scalars.size() + kernel.cuts.size())
      return Status(Code::Internal, "kernel {} is launched with {} buffers and {} scalars", kernel.name, form.writable.size(), form.num_scalars);
    return ok();
  }
  int32_t run(uint32_t k, const MlrunLaunch& launch, uint32_t begin, uint32_t end, WorkMeter&) const override {
    const loop::Kernel& kernel = kernels_[k];
    loop::Run run;
    for (size_t b = 0; b < kernel.params.size(); ++b) run.buffers.emplace_back(static_cast<std::byte*>(launch.buffers[b]), launch.lengths[b]);
    run.value = [&](const ir::Sym* sym) -> std::optional<int64_t> {
      for (size_t s = 0; s < kernel.scalars.size(); ++s)
        if (kernel.scalars[s] == sym) return launch.scalars[s];
      return std::nullopt;
    };
    for (size_t c = 0; c < kernel.cuts.size(); ++c) run.chunks.push_back(launch.scalars[kernel.scalars.size() + c]);
    run.tile_begin = begin;
    run.tile_end = end;
    const Result<int32_t> fault = loop::interpret(kernel, run);
    if (fault.ok()) return *fault;
    error_ = fault.status();
    return MLRUN_FAULT_BAD_CODE;
  }
  const Status& error() const { return error_; }

 private:
  std::unique_ptr<ir::Context> ctx_ = std::make_unique<ir::Context>();
  std::vector<loop::Kernel> kernels_;
  mutable Status error_;  // of the last launch that broke a rule; one worker runs them
};

}  // namespace

Result<targets::Module> KeptKernels::emit(const targets::Target& target, std::span<const loop::Kernel> kernels, std::vector<targets::LargeFrame>& large,
                                          const targets::EmitOptions& options) const {
  kernels_.clear();
  for (const loop::Kernel& kernel : kernels) kernels_.push_back(loop::to_string(kernel));
  if (emits_ == Emits::No) return targets::Module{{}, std::vector<uint64_t>(kernels.size())};
  return inner_.emit(target, kernels, large, options);
}

Result<std::vector<nest::Tensor>> interpret_kernels(Bytes container, Bytes plan, const std::vector<std::string>& kernels, const std::vector<nest::Tensor>& inputs) {
  MLC_ASSIGN(const InterpretedModule module, InterpretedModule::parse(kernels));
  auto results = execute(container, "portable", inputs, {.plan = plan, .module = &module});
  return module.error().ok() ? std::move(results) : module.error();
}

}  // namespace mlc::conformance
