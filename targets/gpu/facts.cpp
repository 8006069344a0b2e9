#include "targets/gpu/facts.h"

#include <algorithm>

#include "base/checked.h"

namespace mlc::targets::gpu {

namespace {

constexpr uint64_t kMostNumber = 8;  // bytes of what lanes fold

void add(const std::vector<loop::StmtPtr>& block, uint32_t lanes, KernelFacts& facts) {
  for (const loop::StmtPtr& s : block) {
    facts.may_fault |= s->kind == loop::StmtKind::While || (s->kind == loop::StmtKind::Fault && s->fault != 0);
    facts.may_return |= s->kind == loop::StmtKind::Fault && s->fault == 0;
    facts.folds_lanes |= s->kind == loop::StmtKind::FoldLanes;
    facts.folds_warps |= s->kind == loop::StmtKind::FoldLanes && (s->step == 1 ? lanes : s->step) > kWarp;
    facts.has_barriers |= s->kind == loop::StmtKind::Barrier || s->kind == loop::StmtKind::ClusterBarrier || s->kind == loop::StmtKind::FoldLanes || s->kind == loop::StmtKind::Mma || s->kind == loop::StmtKind::GroupMma || s->kind == loop::StmtKind::Matrix;
    facts.has_groups |= s->kind == loop::StmtKind::GroupMma;
    add(s->body, lanes, facts);
    add(s->orelse, lanes, facts);
  }
}

}  // namespace

KernelFacts facts_of(const loop::Kernel& kernel) {
  KernelFacts facts;
  add(kernel.body, kernel.lanes, facts);
  return facts;
}

Result<SharedLayout> layout_shared(const loop::Kernel& kernel) {
  SharedLayout layout;
  const KernelFacts facts = facts_of(kernel);
  if (facts.has_groups) layout.alignment = loop::kGroupCells * bytes_of(DType::U32);
  for (const loop::LocalArray& local : kernel.locals) {
    layout.offsets.push_back(layout.bytes);
    if (local.space != loop::Space::Shared) continue;
    if (!local.count || !local.count->is_const() || local.count->i < 0)
      return Status(Code::Internal, "local array " + local.name + " of kernel " + kernel.name + " has no constant size");
    auto bytes = checked_mul(static_cast<uint64_t>(local.count->i), bytes_of(local.dtype));
    if (bytes) bytes = checked_add(*bytes, layout.bytes);
    if (bytes) bytes = checked_align(*bytes, layout.alignment);
    if (!bytes || *bytes > kMostShared)
      return Status(Code::Internal, "a block of kernel " + kernel.name + " shares more than " + std::to_string(kMostShared) + " bytes");
    layout.bytes = *bytes;
  }
  layout.partials = layout.bytes;
  if (facts.folds_warps) layout.bytes += std::max<uint64_t>(16, kernel.lanes / kWarp * kMostNumber);
  if (layout.bytes > kMostShared) return Status(Code::Internal, "a block of kernel " + kernel.name + " shares more than " + std::to_string(kMostShared) + " bytes");
  return layout;
}

}  // namespace mlc::targets::gpu
