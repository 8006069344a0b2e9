#include "tests/conformance/run/execute_images.h"

#include <cstring>
#include <memory>
#include <optional>

#include "schema/format.h"
#include "tests/conformance/run/execute.h"
#include "tests/support/ptx/launch.h"
#include "tests/support/spirv/launch.h"

namespace mlc::conformance {
namespace {

namespace sp = testing::spirv;
namespace px = testing::ptx;

class ExecutedModule final : public KernelModule {
 public:
  static Result<ExecutedModule> read(Bytes bytes, uint32_t subgroup) {
    ExecutedModule m;
    MLC_ASSIGN(m.module_, gpu::decode(bytes));
    if (m.module_.format == static_cast<uint8_t>(format::ModuleFormat::Ptx)) {
      m.ptx_.emplace(bytes);
      if (!m.ptx_->error().empty()) return Status(Code::Internal, m.ptx_->error());
      return m;
    }
    for (const gpu::Image& image : m.module_.images) {
      if (image.kind != gpu::ImageKind::SpirV || image.bytes.size() % 4 != 0) return Status(Code::Unsupported, "an image that nothing executes");
      std::vector<uint32_t> words(image.bytes.size() / 4);
      std::memcpy(words.data(), image.bytes.data(), image.bytes.size());
      m.images_.push_back(std::make_unique<sp::Executor>(words, sp::Manners{.subgroup = subgroup}));
      if (!m.images_.back()->error().empty()) return Status(Code::Internal, m.images_.back()->error());
    }
    return m;
  }

  uint32_t num_kernels() const override { return static_cast<uint32_t>(module_.entries.size()); }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t k, const LaunchForm& form) const override {
    const gpu::Entry& entry = module_.entries[k];
    if (form.writable.size() != entry.num_buffers || form.num_scalars != entry.num_scalars)
      return Status(Code::Internal, "entry {} is launched with {} buffers and {} scalars", k, form.writable.size(), form.num_scalars);
    for (size_t b = 0; b < form.writable.size(); ++b)
      if (!form.writable[b] && (b >= 64 || entry.written >> b & 1)) return Status(Code::Internal, "entry {} writes to buffer {}", k, b);
    return ok();
  }
  int32_t run(uint32_t k, const MlrunLaunch& launch, uint32_t begin, uint32_t end, WorkMeter&) const override {
    const gpu::Entry& entry = module_.entries[k];
    std::vector<std::span<std::byte>> buffers;
    for (size_t b = 0; b < entry.num_buffers; ++b) buffers.emplace_back(static_cast<std::byte*>(launch.buffers[b]), launch.lengths[b]);
    const std::vector<int64_t> scalars(launch.scalars, launch.scalars + entry.num_scalars);
    const auto [error, fault] = ptx_ ? run_ptx(k, std::move(buffers), scalars, begin, end) : run_spirv(entry, std::move(buffers), scalars, begin, end);
    if (error.empty()) return static_cast<int32_t>(fault);
    error_ = Status(Code::Internal, "entry " + std::to_string(k) + ": " + error);
    return MLRUN_FAULT_BAD_CODE;
  }
  const Status& error() const { return error_; }

 private:
  struct Answer {
    std::string error;
    uint32_t fault = 0;
  };
  Answer run_ptx(uint32_t k, std::vector<std::span<std::byte>> buffers, const std::vector<int64_t>& scalars, uint32_t begin, uint32_t end) const {
    const px::Outcome out = px::run_kernel(*ptx_, k, std::move(buffers), scalars, end, 7, begin);
    return {out.error, out.fault[0]};
  }
  Answer run_spirv(const gpu::Entry& entry, std::vector<std::span<std::byte>> buffers, const std::vector<int64_t>& scalars, uint32_t begin, uint32_t end) const {
    sp::Launch l;
    l.buffers = std::move(buffers);
    l.scalars = scalars;
    l.first = begin, l.tiles = end;
    const sp::Outcome out = sp::run(*images_[entry.image], entry, l);
    return {out.error, out.fault};
  }

  gpu::Module module_;
  std::vector<std::unique_ptr<sp::Executor>> images_;  // of SPIR-V
  std::optional<px::LoadedModule> ptx_;                // of PTX
  mutable Status error_;  // of the last launch that went wrong; one worker runs them
};

}  // namespace

Result<std::vector<nest::Tensor>> execute_images(Bytes container, Bytes plan, Bytes bytes, const std::vector<nest::Tensor>& inputs, uint32_t subgroup) {
  MLC_ASSIGN(const ExecutedModule module, ExecutedModule::read(bytes, subgroup));
  auto results = execute(container, "portable", inputs, {.plan = plan, .module = &module});
  return module.error().ok() ? std::move(results) : module.error();
}

}  // namespace mlc::conformance
