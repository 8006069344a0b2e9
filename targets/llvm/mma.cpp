// loop::StmtKind::Mma on devices of NVIDIA: one instruction of the tensor cores. Loop states the same fragments as the manual of PTX does, so
// registers go there in the order in which they are.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

namespace {

using namespace llvm::Intrinsic;

// The code generator ends the process at an instruction that its target does not have: Target::has_mma is asked before.
ID instruction_for(DType factors) {
  if (factors == DType::F16) return nvvm_mma_m16n8k16_row_col_f32_f32;
  return factors == DType::BF16 ? nvvm_mma_m16n8k16_row_col_bf16 : nvvm_mma_m16n8k8_row_col_tf32;
}

}  // namespace

void KernelEmitter::mma(const loop::Stmt& s) {
  if (!can_.target->has_mma) return fail("a product of tiles, which this target does not have");
  Value *sums = eval(s.value), *a = sums ? eval(s.index[0]) : nullptr, *b = a ? eval(s.index[1]) : nullptr;
  if (!b) return;
  std::vector<Value*> operands;
  llvm::Type* cell = s.factors == DType::F16 ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getHalfTy(), 2)) : b_.getInt32Ty();
  for (Value* factor : {a, b})
    for (unsigned k = 0; k < lanes_of(factor); ++k) operands.push_back(b_.CreateBitCast(b_.CreateExtractElement(factor, k), cell));
  for (unsigned k = 0; k < lanes_of(sums); ++k) operands.push_back(b_.CreateExtractElement(sums, k));
  llvm::CallInst* call = b_.CreateIntrinsic(instruction_for(s.factors), {}, operands);
  call->setConvergent();  // all lanes of a warp come here: it may not move under a condition
  Value* result = llvm::PoisonValue::get(sums->getType());
  for (unsigned k = 0; k < lanes_of(sums); ++k) result = b_.CreateInsertElement(result, b_.CreateExtractValue(call, k), k);
  vars_[s.var->i] = result;
}

}  // namespace mlc::targets
