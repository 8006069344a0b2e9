// A variant without its machine: its plan is run as the portable one's is, its kernels by the Loop interpreter, those of devices in
// lockstep, with every access checked.
#pragma once

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"
#include "targets/emitter.h"

namespace mlc::conformance {

// A target as it is, whose kernels are kept as text while they are emitted and audited as always, or instead of that.
class KeptKernels final : public targets::Emitter {
 public:
  enum class Emits : uint8_t { Yes, No };
  explicit KeptKernels(const targets::Target& target, Emits emits = Emits::Yes) : inner_(*target.emitter), target_(target), emits_(emits) {
    target_.emitter = this;
  }

  const targets::Target& target() const { return target_; }
  const std::vector<std::string>& kernels() const { return kernels_; }

  std::span<const targets::Target> targets() const override { return {&target_, 1}; }
  Result<targets::Module> emit(const targets::Target& target, std::span<const loop::Kernel> kernels, std::vector<targets::LargeFrame>& large,
                               const targets::EmitOptions& options) const override;
  Status audit(const targets::Target& target, std::span<const std::byte> module) const override {
    return emits_ == Emits::Yes ? inner_.audit(target, module) : ok();
  }
  void require(const targets::Target& target, std::span<const std::byte> module, format::Variant& variant) const override {
    inner_.require(target, module, variant);
  }

 private:
  const targets::Emitter& inner_;
  targets::Target target_;
  Emits emits_;
  mutable std::vector<std::string> kernels_;  // of the last module
};

// Runs the program "main" by this plan and these kernels; constants are those of `container`, which has the portable variant beside.
Result<std::vector<nest::Tensor>> interpret_kernels(Bytes container, Bytes plan, const std::vector<std::string>& kernels, const std::vector<nest::Tensor>& inputs);

}  // namespace mlc::conformance
