// The two entry points of target.h, per family.
#include "targets/family.h"
#include "targets/llvm/emit.h"
#include "targets/llvm/link.h"
#include "targets/module_elf.h"
#include "targets/print_kernel.h"

namespace mlc::targets {

Result<Module> emit_module(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>* large,
                           const EmitOptions& options) {
  if (large) large->clear();
  if (target.family == Family::Portable) return portable::emit(target, kernels, options.progress);
  std::vector<LargeFrame> found;
  MLC_ASSIGN(Module module, emit_elf(target, kernels, found, options));
  if (!found.empty() && !large)
    return Status(Code::Internal, "kernel " + kernels[found[0].kernel].name + " needs a stack frame of " + std::to_string(found[0].bytes) +
                                      " bytes for " + target.name + ", at most " + std::to_string(kMaxFrame) + " are allowed");
  if (large) *large = std::move(found);
  return module;
}

Result<KernelText> print_kernel(const Target& target, const loop::Kernel& kernel) {
  return target.family == Family::Portable ? KernelText() : print_elf_kernel(target, kernel);
}

Status can_emit(const Target& target) { return target.family == Family::Portable ? ok() : can_link(); }

Status audit_module(const Target& target, std::span<const std::byte> module) {
  if (target.family == Family::Portable) return portable::audit(module);
  const std::string where = "audit of the module for " + target.name;
  Result<ModuleElf> elf = read_module_elf(module, target.family);
  if (!elf.ok()) return std::move(elf).status().note(where);
  uint64_t num_instructions = 0;
  for (const CodeRange& code : elf->code) {
    Status s;
    switch (target.family) {
      case Family::X86: s = x86::audit(target, code, num_instructions); break;
      case Family::AArch64: s = aarch64::audit(target, code, num_instructions); break;
      case Family::RiscV: s = riscv::audit(target, code, num_instructions); break;
      case Family::Portable: break;
    }
    if (!s.ok()) return std::move(s).note(where);
  }
  if (num_instructions == 0) return Status(Code::Internal, where + ": the module has no instruction");
  return ok();
}

}  // namespace mlc::targets
