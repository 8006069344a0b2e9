// The portable target: code for the interpreter of loaders/portable, which runs anywhere. Wide registers, because each
// instruction costs the same dispatch however many lanes it has.
#include "loaders/portable/program.h"
#include "targets/families.h"
#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

namespace {

class PortableEmitter final : public Emitter {
 public:
  PortableEmitter() {
    target_.name = "portable";
    target_.emitter = this;
    target_.vector_bytes = 64;
    target_.vector_registers = 64;
    target_.has_masks = true;
    target_.has_sized_locals = false;
  }

  std::span<const Target> targets() const override { return {&target_, 1}; }

  Result<Module> emit(const Target&, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>&, const EmitOptions& options) const override {
    Module out;
    auto add = [&](uint64_t v, unsigned bytes) {
      for (unsigned k = 0; k < bytes; ++k) out.bytes.push_back(static_cast<std::byte>(v >> (8 * k)));
    };
    add(mlc::portable::kMagic, 4), add(mlc::portable::kVersion, 2), add(0, 2), add(kernels.size(), 4), add(0, 4);
    Encoder encoder;
    for (size_t k = 0; k < kernels.size(); ++k) {
      MLC_RETURN_IF_ERROR(encoder.encode(kernels[k], out.bytes));
      if (options.progress) options.progress(k + 1, kernels.size());
    }
    // The decoder is the judge of what was written, and knows how much scratch a worker needs.
    auto programs = mlc::portable::decode_module(out.bytes);
    if (!programs.ok()) return std::move(programs).status().note("the encoder wrote code that its decoder refuses");
    for (const auto& p : *programs) out.scratch_bytes.push_back(p.scratch_bytes);
    return out;
  }

  Status audit(const Target&, std::span<const std::byte> module) const override {
    auto programs = mlc::portable::decode_module(module);
    return programs.ok() ? ok() : std::move(programs).status();
  }

  void require(const Target&, std::span<const std::byte>, format::Variant& variant) const override {
    variant.family = "portable";
    variant.module_format = format::ModuleFormat::Portable;
  }

 private:
  Target target_;
};

}  // namespace

const Emitter& emitter() {
  static const PortableEmitter all;
  return all;
}

}  // namespace mlc::targets::portable
