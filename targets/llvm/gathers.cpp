#include "targets/llvm/gathers.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include <vector>

namespace mlc::targets {
namespace {

using llvm::Value;

llvm::Align align_of(Value* operand) { return llvm::cast<llvm::ConstantInt>(operand)->getMaybeAlignValue().valueOrOne(); }

class Expander {
 public:
  explicit Expander(llvm::Function& function) : function_(function) {}

  // masked.gather(pointers, align, mask, otherwise)
  void gather(llvm::IntrinsicInst& call) {
    llvm::IRBuilder<> b(&call);
    auto* type = llvm::cast<llvm::FixedVectorType>(call.getType());
    llvm::Type* element = type->getElementType();
    Value* zeros = place_on_stack(zeros_, true);
    Value* result = llvm::PoisonValue::get(type);
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
      Value* pointer = b.CreateSelect(b.CreateExtractElement(call.getArgOperand(2), lane), b.CreateExtractElement(call.getArgOperand(0), lane), zeros);
      llvm::LoadInst* loaded = b.CreateAlignedLoad(element, pointer, align_of(call.getArgOperand(1)));
      loaded->setAAMetadata(call.getAAMetadata());
      result = b.CreateInsertElement(result, loaded, lane);
    }
    call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }

  // masked.scatter(values, pointers, align, mask)
  void scatter(llvm::IntrinsicInst& call) {
    llvm::IRBuilder<> b(&call);
    const auto* type = llvm::cast<llvm::FixedVectorType>(call.getArgOperand(0)->getType());
    Value* anything = place_on_stack(anything_, false);
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
      Value* pointer = b.CreateSelect(b.CreateExtractElement(call.getArgOperand(3), lane), b.CreateExtractElement(call.getArgOperand(1), lane), anything);
      llvm::StoreInst* stored = b.CreateAlignedStore(b.CreateExtractElement(call.getArgOperand(0), lane), pointer, align_of(call.getArgOperand(2)));
      stored->setAAMetadata(call.getAAMetadata());
    }
    call.eraseFromParent();
  }

 private:
  // An element is at most 8 bytes.
  Value* place_on_stack(Value*& place, bool is_zero) {
    if (place) return place;
    llvm::BasicBlock& entry = function_.getEntryBlock();
    llvm::IRBuilder<> b(&entry, entry.getFirstInsertionPt());
    llvm::AllocaInst* made = b.CreateAlloca(b.getInt64Ty());
    if (is_zero) b.CreateStore(b.getInt64(0), made);
    return place = made;
  }

  llvm::Function& function_;
  Value* zeros_ = nullptr;
  Value* anything_ = nullptr;
};

}  // namespace

llvm::PreservedAnalyses ExpandGathers::run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  const auto& target = analyses.getResult<llvm::TargetIRAnalysis>(function);
  std::vector<llvm::IntrinsicInst*> gathers, scatters;
  const auto is_known = [](Value* mask) { return llvm::isa<llvm::Constant>(mask); };  // no branches
  for (llvm::BasicBlock& block : function)
    for (llvm::Instruction& i : block) {
      auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
      if (!call) continue;
      if (call->getIntrinsicID() == llvm::Intrinsic::masked_gather && !is_known(call->getArgOperand(2)) &&
          llvm::isa<llvm::ConstantAggregateZero>(call->getArgOperand(3))) {
        auto* type = llvm::cast<llvm::VectorType>(call->getType());
        const llvm::Align align = align_of(call->getArgOperand(1));
        if (!target.isLegalMaskedGather(type, align) || target.forceScalarizeMaskedGather(type, align)) gathers.push_back(call);
      }
      if (call->getIntrinsicID() == llvm::Intrinsic::masked_scatter && !is_known(call->getArgOperand(3))) {
        auto* type = llvm::cast<llvm::VectorType>(call->getArgOperand(0)->getType());
        const llvm::Align align = align_of(call->getArgOperand(2));
        if (!target.isLegalMaskedScatter(type, align) || target.forceScalarizeMaskedScatter(type, align)) scatters.push_back(call);
      }
    }
  Expander expander(function);
  for (llvm::IntrinsicInst* call : gathers) expander.gather(*call);
  for (llvm::IntrinsicInst* call : scatters) expander.scatter(*call);
  return gathers.empty() && scatters.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

}  // namespace mlc::targets
