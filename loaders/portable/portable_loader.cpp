#include "loaders/portable/portable_loader.h"

#include "base/compose.h"
#include "loaders/portable/program.h"

namespace mlc::portable {
namespace {

class PortableModule final : public KernelModule {
 public:
  explicit PortableModule(std::vector<Program> programs) : programs_(std::move(programs)) {}

  uint32_t num_kernels() const override { return static_cast<uint32_t>(programs_.size()); }
  uint64_t scratch_bytes(uint32_t kernel) const override { return programs_[kernel].scratch_bytes; }
  Status accepts(uint32_t kernel, const LaunchForm& form) const override {
    const Program& p = programs_[kernel];
    auto refuse = [&](std::string what) {
      return Status(Code::Malformed, "portable kernel {}: {}", kernel, what);
    };
    if (form.writable.size() != p.param_flags.size())
      return refuse(compose("launched with {} buffers, expected {}", form.writable.size(), p.param_flags.size()));
    if (form.num_scalars != p.num_scalars)
      return refuse(compose("launched with {} scalars, expected {}", form.num_scalars, p.num_scalars));
    for (size_t k = 0; k < p.param_flags.size(); ++k)
      if ((p.param_flags[k] & kParamWritten) && !form.writable[k])
        return refuse(compose("stores to buffer {}, which is read-only", k));
    return ok();
  }
  int32_t run(uint32_t kernel, const MlrunLaunch& launch, uint32_t tile_begin, uint32_t tile_end,
              WorkMeter& meter) const override {
    return run_program(programs_[kernel], launch, tile_begin, tile_end, meter);
  }

 private:
  std::vector<Program> programs_;
};

class PortableLoader final : public Loader {
 public:
  std::string_view format() const override { return "portable"; }
  Result<std::unique_ptr<KernelModule>> load(Compatible, VerifiedBytes bytes) const override {
    Result<std::vector<Program>> programs = decode_module(bytes.bytes());
    if (!programs.ok()) return std::move(programs).status().note(bytes.name());
    return std::unique_ptr<KernelModule>(new PortableModule(std::move(programs).value()));
  }
};

}  // namespace

std::unique_ptr<Loader> make_portable_loader() { return std::make_unique<PortableLoader>(); }

}  // namespace mlc::portable
