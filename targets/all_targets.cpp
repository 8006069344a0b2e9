#include <algorithm>

#include "targets/families.h"
#include "targets/llvm/host.h"

namespace mlc::targets {

std::span<const Emitter* const> emitters() {
  static const Emitter* const all[] = {&x86::emitter(), &aarch64::emitter(), &riscv::emitter(), &loongarch::emitter(), &spirv::emitter(), &ptx::emitter(), &portable::emitter()};
  return all;
}

bool has_feature(const Target& target, std::string_view name) {
  return std::binary_search(target.features.begin(), target.features.end(), name);
}

namespace {
std::vector<Target> targets_where(bool is_device) {
  std::vector<Target> found;
  for (const Emitter* emitter : emitters())
    for (const Target& target : emitter->targets())
      if (target.is_device() == is_device) found.push_back(target);
  return found;
}
}  // namespace

std::span<const Target> all_targets() {
  static const std::vector<Target> targets = targets_where(false);
  return targets;
}

std::span<const Target> device_targets() {
  static const std::vector<Target> targets = targets_where(true);
  return targets;
}

const Target* find_target(std::string_view name) {
  for (const auto targets : {all_targets(), device_targets()})
    for (const Target& t : targets)
      if (t.name == name) return &t;
  return nullptr;
}

const Target* native_target() {
  const Target* best = nullptr;
  for (const Target& t : all_targets())
    if (t.machine != Machine::None && runs_here(t) && (!best || t.features.size() > best->features.size())) best = &t;
  return best ? best : find_target("portable");
}

Status can_emit(const Target& target) { return target.emitter->can_emit(); }

Result<Module> emit_module(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>* large,
                           const EmitOptions& options) {
  std::vector<LargeFrame> found;
  MLC_ASSIGN(Module module, target.emitter->emit(target, kernels, found, options));
  if (!found.empty() && !large)
    return Status(Code::Internal, "kernel " + kernels[found[0].kernel].name + " needs a stack frame of " + std::to_string(found[0].bytes) +
                                      " bytes for " + target.name + ", at most " + std::to_string(kMaxFrame) + " are allowed");
  if (large) *large = std::move(found);
  return module;
}

Result<KernelText> print_kernel(const Target& target, const loop::Kernel& kernel) { return target.emitter->print(target, kernel); }

Status audit_module(const Target& target, std::span<const std::byte> module) { return target.emitter->audit(target, module); }

}  // namespace mlc::targets
