// The little of ELF that the audit needs: the machine, the executable segments, and that nothing is imported. Whether a
// module keeps all rules of the format is the loader's question (loaders/elf).
#pragma once

#include "targets/cpu_emitter.h"

namespace mlc::targets {

struct ModuleElf {
  std::vector<CodeRange> code;  // views into the module
};

Result<ModuleElf> read_module_elf(std::span<const std::byte> module, Machine machine);

}  // namespace mlc::targets
