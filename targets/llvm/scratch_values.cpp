// Code that keeps as little in registers as can be, for kernels whose frames are too large even without vectors: whatever
// has a name, or is used twice within a statement, is in scratch memory, which unlike the stack may be large. Operands
// that need more registers come first (Sethi and Ullman 1970), so an expression needs as many as its depth in branchings.
#include <algorithm>

#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

KernelEmitter::Slot KernelEmitter::new_slot(llvm::Type* type) {
  if (!in_scratch_) return {entry_alloca(type), type};
  constexpr uint64_t kAlign = 64;
  const uint64_t offset = scratch_bytes_, bytes = module_.getDataLayout().getTypeAllocSize(type).getFixedValue();
  const uint64_t unit = bytes <= 8 ? 8 : kAlign;
  const uint64_t at = (offset + unit - 1) / unit * unit;
  scratch_bytes_ = at + bytes;
  return {b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, at), type};
}

// Uses of every node below `root`, and how many registers it takes.
void KernelEmitter::plan_statement(const Expr* root) {
  std::vector<const Expr*> stack = {root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    if (uses_.count(e)) {
      stack.pop_back();
      continue;
    }
    const size_t before = stack.size();
    for (const Expr* a : e->args)
      if (!uses_.count(a)) stack.push_back(a);
    if (stack.size() != before) continue;
    std::vector<uint32_t> needs;
    for (const Expr* a : e->args) ++uses_.at(a), needs.push_back(registers_.at(a));
    std::sort(needs.rbegin(), needs.rend());
    uint32_t most = 1;
    for (uint32_t k = 0; k < needs.size(); ++k) most = std::max(most, needs[k] + k);
    uses_[e] = 0;
    registers_[e] = most;
    stack.pop_back();
  }
}

// Of a stack: the last one is next.
void KernelEmitter::order_operands(std::vector<const Expr*>& operands) const {
  std::stable_sort(operands.begin(), operands.end(),
                   [&](const Expr* a, const Expr* b) { return registers_.at(a) < registers_.at(b); });
}

llvm::Value* KernelEmitter::value_of(const Expr* e) {
  if (!in_scratch_) return cache_.at(e);
  auto slot = shared_.find(e);
  return slot == shared_.end() ? cache_.at(e) : read(slot->second);
}

}  // namespace mlc::targets
