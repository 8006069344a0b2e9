// Devices that run SPIR-V: Vulkan. One image for each kernel, equal ones too: entries of an image have names of their own.
#include <algorithm>
#include <cstring>

#include "schema/gpu_module.h"
#include "targets/families.h"
#include "targets/gpu/device_targets.h"
#include "targets/spirv/kernel_emitter.h"
#include "targets/spirv/verify.h"
#include "targets/spirv/words.h"

namespace mlc::targets::spirv {

namespace {

constexpr char kBase[] = "vulkan-base";
constexpr uint32_t kSharedBytes = 16384;  // of vulkan-base
constexpr uint32_t kMoreSharedBytes = 32768;

Limits limits_of(const Target& target) {
  const bool is_base = target.name == kBase;
  return {target.block_lanes, is_base ? kSharedBytes : kMoreSharedBytes, target.most_bindings, !is_base, target.matrix_side, target.matrix_lanes};
}

class SpirvEmitter final : public Emitter {
 public:
  SpirvEmitter() {
    for (const char* name : {kBase, "vulkan-subgroup", "vulkan-matrix", "vulkan-matrix8"}) targets_.push_back(gpu::device_target(name));
    for (Target& t : targets_) t.emitter = this;
  }

  std::span<const Target> targets() const override { return targets_; }
  Result<Module> emit(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large,
                      const EmitOptions& options) const override;
  Status audit(const Target& target, std::span<const std::byte> module) const override;
  void require(const Target& target, std::span<const std::byte> module, format::Variant& variant) const override;

 private:
  std::vector<Target> targets_;
};

std::vector<std::byte> bytes_of_words(std::span<const uint32_t> words) {
  std::vector<std::byte> bytes(words.size() * 4);
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(words[k / 4] >> (k % 4 * 8));
  return bytes;
}

Result<std::vector<uint32_t>> words_of_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() % 4 != 0) return Status(Code::Malformed, "an image of {} bytes, which are no words", bytes.size());
  std::vector<uint32_t> words(bytes.size() / 4);
  for (size_t k = 0; k < bytes.size(); ++k) words[k / 4] |= static_cast<uint32_t>(bytes[k]) << (k % 4 * 8);
  return words;
}

Result<Module> SpirvEmitter::emit(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>&,
                                  const EmitOptions& options) const {
  mlc::gpu::Module module;
  module.format = static_cast<uint8_t>(format::ModuleFormat::Spirv);
  for (size_t k = 0; k < kernels.size(); ++k) {
    MLC_ASSIGN(EmittedKernel kernel, emit_kernel(kernels[k], limits_of(target)));
    kernel.entry.image = static_cast<uint32_t>(module.images.size());
    module.images.push_back({mlc::gpu::ImageKind::SpirV, 0, std::move(kernel.capabilities), bytes_of_words(kernel.words)});
    module.entries.push_back(std::move(kernel.entry));
    if (options.progress) options.progress(k + 1, kernels.size());
  }
  return Module{mlc::gpu::encode(module), std::vector<uint64_t>(kernels.size())};
}

Status SpirvEmitter::audit(const Target& target, std::span<const std::byte> bytes) const {
  const std::string where = "audit of the module for " + target.name;
  const auto module = mlc::gpu::decode(bytes);
  if (!module.ok()) return Status(module.status()).note(where);
  if (module->format != static_cast<uint8_t>(format::ModuleFormat::Spirv)) return Status(Code::Internal, where + ": not of SPIR-V");
  const Limits limits = limits_of(target);
  for (const mlc::gpu::Entry& entry : module->entries) {
    const mlc::gpu::Image& image = module->images[entry.image];
    if (image.kind != mlc::gpu::ImageKind::SpirV) return Status(Code::Internal, where + ": an image that is not of SPIR-V");
    if (uint32_t{entry.lanes[0]} * entry.lanes[1] * entry.lanes[2] > limits.lanes || entry.shared_bytes > limits.shared_bytes || mlc::gpu::num_bindings(entry) > limits.bindings)
      return Status(Code::Internal, where + ": an entry beyond what the target has");
    auto words = words_of_bytes(image.bytes);
    if (!words.ok()) return std::move(words).status().note(where);
    auto found = verify(*words, entry, limits.subgroups, {limits.matrix_side, limits.matrix_lanes});
    if (!found.ok()) return std::move(found).status().note(where);
    if (found->capabilities != image.features) return Status(Code::Internal, where + ": an image lists other capabilities than it uses");
  }
  return ok();
}

// Capabilities that the target itself does not ask for.
void SpirvEmitter::require(const Target& target, std::span<const std::byte> bytes, format::Variant& variant) const {
  gpu::require_device(target, variant);
  const auto module = mlc::gpu::decode(bytes);
  if (!module.ok()) return;
  for (const mlc::gpu::Image& image : module->images)
    for (const uint32_t capability : image.features)
      if (capability == static_cast<uint32_t>(Capability::Float64))
        for (const Feature f : {Feature::VkShaderFloat64, Feature::VkF64InfNanKeep}) gpu::add_feature(variant, f);
}

}  // namespace

const Emitter& emitter() {
  static const SpirvEmitter emitter;
  return emitter;
}

}  // namespace mlc::targets::spirv
