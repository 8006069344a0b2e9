// Operations that x86 has in one instruction while LLVM makes several of them: the same values, bit for bit.
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include "targets/families.h"
#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

using llvm::Value;
using ID = llvm::Intrinsic::ID;

// a > b ? a : b (or with <) without a test for NaN. As a select LLVM would merge it with the one for NaN behind it, into two
// compares, a disjunction of masks and a blend. Null: there is no such instruction of this width.
llvm::Value* KernelEmitter::x86_min_max(bool is_min, Value* a, Value* b) {
  using namespace llvm::Intrinsic;
  if (can_.target->machine != Machine::X86_64 || !a->getType()->getScalarType()->isFloatTy()) return nullptr;
  const unsigned lanes = lanes_of(a);
  if (lanes == 16 && has_feature(*can_.target, "x86.avx512f")) {
    constexpr uint32_t kCurrentDirection = 4;
    return b_.CreateIntrinsic(is_min ? x86_avx512_min_ps_512 : x86_avx512_max_ps_512, {}, {a, b, b_.getInt32(kCurrentDirection)});
  }
  if (lanes == 8 && has_feature(*can_.target, "x86.avx")) return b_.CreateIntrinsic(is_min ? x86_avx_min_ps_256 : x86_avx_max_ps_256, {}, {a, b});
  if (lanes == 4) return b_.CreateIntrinsic(is_min ? x86_sse_min_ps : x86_sse_max_ps, {}, {a, b});
  return nullptr;
}

// a * b, where that is p * 2^(n >> 1) * 2^(n - (n >> 1)) for a whole number n (ops/math.mlop, exp): the first product is exact, so one
// vscalefps rounds as the second one does. Null: it is none.
llvm::Value* KernelEmitter::x86_scaled(Value* a, Value* b) {
  using namespace llvm::PatternMatch;
  using namespace llvm::Intrinsic;
  const unsigned lanes = lanes_of(a);
  if (can_.target->machine != Machine::X86_64 || !a->getType()->getScalarType()->isFloatTy() || (lanes != 16 && lanes != 8 && lanes != 4)) return nullptr;
  if (!has_feature(*can_.target, "x86.avx512f") || (lanes < 16 && !has_feature(*can_.target, "x86.avx512vl"))) return nullptr;
  const auto power = [](auto exponent) { return m_BitCast(m_Shl(m_Add(exponent, m_SpecificInt(127)), m_SpecificInt(23))); };
  Value *p = nullptr, *n = nullptr, *whole = nullptr, *half = nullptr;
  if (!match(b, power(m_Sub(m_Value(whole), m_Value(half)))) || !match(half, m_AShr(m_Specific(whole), m_SpecificInt(1)))) return nullptr;
  if (!match(a, m_FMul(m_Value(p), power(m_Specific(half)))) || !match(whole, m_Freeze(m_FPToSI(m_Value(n)))) || !match(n, m_Intrinsic<rint>(m_Value())))
    return nullptr;
  const ID id = lanes == 16 ? x86_avx512_mask_scalef_ps_512 : lanes == 8 ? x86_avx512_mask_scalef_ps_256 : x86_avx512_mask_scalef_ps_128;
  std::vector<Value*> args{p, n, llvm::PoisonValue::get(a->getType()), lanes == 16 ? b_.getInt16(0xffff) : b_.getInt8(0xff)};
  if (lanes == 16) args.push_back(b_.getInt32(4));
  return b_.CreateIntrinsic(id, {}, args);
}

}  // namespace mlc::targets
