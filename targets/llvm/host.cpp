#include "targets/llvm/host.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

namespace mlc::targets {

Family host_family() {
#if defined(__x86_64__)
  return Family::X86;
#elif defined(__aarch64__)
  return Family::AArch64;
#elif defined(__riscv) && __riscv_xlen == 64
  return Family::RiscV;
#else
  return Family::Portable;
#endif
}

bool host_has(const std::vector<std::string>& llvm_features) {
  const llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  for (const std::string& feature : llvm_features) {
    const std::string name = feature.substr(1);
    // Part of every 64-bit x86; LLVM does not report it.
    if (name == "x87") continue;
    if (!host.lookup(name)) return false;
  }
  return true;
}

}  // namespace mlc::targets
