// What each family of targets gives to the rest of targets/: its rows and the audit of its code. One folder per family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "schema/targets.h"
#include "targets/target.h"

namespace mlc::targets {

// A Target with name, features and LLVM features filled in from a row of schema/targets.tbl.
Target target_of_row(std::string_view name, Family family, std::string triple);
bool has_feature(const Target& target, std::string_view name);

// One executable segment: its bytes and where the module wants it.
struct CodeRange {
  std::span<const std::byte> bytes;
  uint64_t address = 0;
};

// The audit of one family fails with an instruction's address and text as facts. `num_instructions` counts upward.
namespace x86 {
void add_targets(std::vector<Target>& out);
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace x86
namespace aarch64 {
void add_targets(std::vector<Target>& out);
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace aarch64
namespace riscv {
void add_targets(std::vector<Target>& out);
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace riscv
namespace portable {
void add_targets(std::vector<Target>& out);
Result<Module> emit(const Target& target, std::span<const loop::Kernel> kernels, const Progress& progress);
Status audit(std::span<const std::byte> module);
}  // namespace portable

}  // namespace mlc::targets
