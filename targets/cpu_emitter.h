// What processors have in common: LLVM makes their code, lld an ELF module of it, and an audit of theirs decodes that again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "packager/loop/loop.h"
#include "targets/emitter.h"

namespace mlc::targets {

// One executable segment: its bytes and where the module wants it.
struct CodeRange {
  std::span<const std::byte> bytes;
  uint64_t address = 0;
};

class CpuEmitter final : public Emitter {
 public:
  using Audit = Status (*)(const Target& target, const CodeRange& code, uint64_t& num_instructions);
  // Facts of a target for schedules; all else follows from its row in schema/targets.tbl.
  struct Row {
    std::string_view name;
    unsigned vector_bytes, vector_registers;
    bool has_fma, has_masks, has_lane_operands;
    bool has_vectors = true;
  };

  CpuEmitter(std::string_view llvm_triple, std::initializer_list<Row> rows, Audit audit);

  std::span<const Target> targets() const override { return targets_; }
  Status can_emit() const override;
  Result<Module> emit(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large,
                      const EmitOptions& options) const override;
  Result<KernelText> print(const Target& target, const loop::Kernel& kernel) const override;
  Status audit(const Target& target, std::span<const std::byte> module) const override;
  void require(const Target& target, std::span<const std::byte> module, format::Variant& variant) const override;

 private:
  std::vector<Target> targets_;
  Audit audit_;
};

}  // namespace mlc::targets
