#include "targets/llvm/host.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

namespace mlc::targets {

Machine host_machine() {
#if defined(__x86_64__)
  return Machine::X86_64;
#elif defined(__aarch64__)
  return Machine::AArch64;
#elif defined(__riscv) && __riscv_xlen == 64
  return Machine::RiscV64;
#elif defined(__loongarch_lp64)
  return Machine::LoongArch64;
#else
  return Machine::None;
#endif
}

bool runs_here(const Target& target) {
  if (target.machine != Machine::None && target.machine != host_machine()) return false;
  const llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  for (const std::string& feature : target.llvm_features) {
    const std::string name = feature.substr(1);
    // Part of every 64-bit x86; LLVM does not report it.
    if (name == "x87") continue;
    if (!host.lookup(name)) return false;
  }
  return true;
}

}  // namespace mlc::targets
