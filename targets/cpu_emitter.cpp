#include "targets/cpu_emitter.h"

#include <algorithm>
#include <cassert>

#include "schema/module_abi.h"
#include "schema/targets.h"
#include "targets/families.h"
#include "targets/llvm/emit.h"
#include "targets/llvm/link.h"
#include "targets/module_elf.h"

namespace mlc::targets {

namespace {

// "avx2,fma" as "+avx2", "+fma".
void add_llvm_features(std::string_view list, std::vector<std::string>& out) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    out.push_back("+" + std::string(list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

Target target_of(const CpuEmitter::Row& row, std::string_view llvm_triple) {
  const TargetRow* known = target_named(row.name);
  assert(known && "a target without a row in schema/targets.tbl");
  Target t;
  t.name = row.name;
  if (differs_by_dots(*known)) t.base = known->extends;
  t.machine = known->machine;
  t.llvm_triple = llvm_triple;
  for_each_feature(*known, [&](Feature f) {
    t.features.emplace_back(kFeatureNames[feature_index(f)]);
    add_llvm_features(kFeatureLlvm[feature_index(f)], t.llvm_features);
  });
  std::sort(t.features.begin(), t.features.end());
  t.has_tiles = has_feature(t, "x86.amx_int8") && has_feature(t, "x86.amx_bf16");
  t.has_vectors = row.has_vectors;
  t.vector_bytes = row.vector_bytes;
  t.vector_registers = row.vector_registers;
  t.has_fma = row.has_fma;
  t.has_masks = row.has_masks;
  t.has_lane_operands = row.has_lane_operands;
  return t;
}

}  // namespace

CpuEmitter::CpuEmitter(std::string_view llvm_triple, std::initializer_list<Row> rows, Audit audit) : audit_(audit) {
  for (const Row& row : rows) {
    targets_.push_back(target_of(row, llvm_triple));
    targets_.back().emitter = this;
  }
}

Status CpuEmitter::can_emit() const { return can_link(); }

Result<Module> CpuEmitter::emit(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large,
                                const EmitOptions& options) const {
  return emit_elf(target, kernels, large, options);
}

Result<KernelText> CpuEmitter::print(const Target& target, const loop::Kernel& kernel) const { return print_compiled(target, kernel); }

Status CpuEmitter::audit(const Target& target, std::span<const std::byte> module) const {
  const std::string where = "audit of the module for " + target.name;
  Result<ModuleElf> elf = read_module_elf(module, target.machine);
  if (!elf.ok()) return std::move(elf).status().note(where);
  uint64_t num_instructions = 0;
  for (const CodeRange& code : elf->code)
    if (Status s = audit_(target, code, num_instructions); !s.ok()) return std::move(s).note(where);
  if (num_instructions == 0) return Status(Code::Internal, where + ": the module has no instruction");
  return ok();
}

void CpuEmitter::require(const Target& target, std::span<const std::byte>, format::Variant& variant) const {
  variant.family = "cpu";
  variant.module_format = format::ModuleFormat::Elf;
  for (const std::string& feature : target.features) variant.features.push_back(static_cast<uint32_t>(feature_named(feature)));
  variant.features.push_back(static_cast<uint32_t>(Feature::OsCodePages));
  const auto clause = [&](Feature feature, format::ClauseOp op, int64_t value) {
    variant.clauses.push_back({static_cast<uint32_t>(feature), op, {value}});
  };
  clause(Feature::HostArch, format::ClauseOp::Equal, static_cast<int64_t>(target.machine));
  clause(Feature::OsPageSize, format::ClauseOp::Divides, 65536);  // alignment of a module's segments
  if (has_feature(target, "rv.v")) clause(Feature::RvVlenb, format::ClauseOp::AtMost, riscv::kMostVlenb);
  // What no decoder sees: the code counts on registers of this length, wants no more of longer ones, and has frames for these.
  if (has_feature(target, "a64.sve")) {
    clause(Feature::A64SveVlBytes, format::ClauseOp::AtLeast, target.vector_bytes);
    clause(Feature::A64SveVlBytes, format::ClauseOp::AtMost, aarch64::kMostSveBytes);
  }
  clause(Feature::ModuleAbi, format::ClauseOp::AtLeast, MLRUN_MODULE_ABI);
}

}  // namespace mlc::targets
