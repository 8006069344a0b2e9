// Op::Dot: a group of lanes of each operand, multiplied lane by lane and added to one lane of the accumulator that is as wide
// as the group. Which instruction serves a target is in targets/instructions.cpp; all memory is little-endian, so the first
// lane of a group is the low bits of the wide one.
// loop::StmtKind::Mma, a tile of products by 32 lanes: one instruction of NVIDIA's tensor cores. Loop states the same fragments as the manual
// of PTX does, so registers go there in the order in which they are.
// loop::StmtKind::GroupMma, one by 128 lanes whose factors lie in memory of the block: instructions that begin and go on beside their lanes, as one piece of code with
// the wait for them, for no register of the sums may be touched in between.
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "targets/instructions.h"
#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

namespace {

using llvm::Intrinsic::ID;

// Of one width: 4, 8 or 16 lanes of the accumulator.
ID by_lanes(unsigned lanes, ID four, ID eight, ID sixteen) { return lanes == 4 ? four : lanes == 8 ? eight : sixteen; }

ID native_dot(std::string_view name, unsigned lanes) {
  using namespace llvm::Intrinsic;
  if (name == "vpdpbusd") return by_lanes(lanes, x86_avx512_vpdpbusd_128, x86_avx512_vpdpbusd_256, x86_avx512_vpdpbusd_512);
  if (name == "vpdpwssd") return by_lanes(lanes, x86_avx512_vpdpwssd_128, x86_avx512_vpdpwssd_256, x86_avx512_vpdpwssd_512);
  if (name == "vdpbf16ps") return by_lanes(lanes, x86_avx512bf16_dpbf16ps_128, x86_avx512bf16_dpbf16ps_256, x86_avx512bf16_dpbf16ps_512);
  if (name == "sdot") return aarch64_neon_sdot;
  if (name == "udot") return aarch64_neon_udot;
  return name == "usdot" ? aarch64_neon_usdot : aarch64_neon_bfdot;
}

// The code generator ends the process at an instruction that its target does not have: Target::has_mma is asked before.
ID native_mma(DType factors, DType b_factors) {
  using namespace llvm::Intrinsic;
  if (factors == DType::I8) return b_factors == DType::I8 ? nvvm_mma_m16n8k32_row_col_s8 : nvvm_mma_m16n8k32_row_col_s8_u8;
  if (factors == DType::U8) return b_factors == DType::U8 ? nvvm_mma_m16n8k32_row_col_u8 : nvvm_mma_m16n8k32_row_col_u8_s8;
  if (factors == DType::F16) return nvvm_mma_m16n8k16_row_col_f32_f32;
  return factors == DType::BF16 ? nvvm_mma_m16n8k16_row_col_bf16 : nvvm_mma_m16n8k8_row_col_tf32;
}

}  // namespace

// `count` neighbouring lanes as a vector; lanes beyond those of `v` have any value.
llvm::Value* KernelEmitter::take_lanes(Value* v, unsigned first, unsigned count) {
  if (!v->getType()->isVectorTy())
    return b_.CreateInsertElement(llvm::PoisonValue::get(with_lanes(v->getType(), count)), v, uint64_t{0});
  if (lanes_of(v) == count) return v;
  std::vector<int> pick;
  for (unsigned k = first; k < first + count; ++k) pick.push_back(k < lanes_of(v) ? static_cast<int>(k) : -1);
  return b_.CreateShuffleVector(v, pick);
}

// A group of lanes over and over: through one integer as wide as the group where there is one, which code generators know to
// broadcast from memory.
llvm::Value* KernelEmitter::splat_group(Value* group, ir::Type type, unsigned lanes) {
  const unsigned bits = bits_of(type.dtype) * lanes;
  if (bits_of(type.dtype) >= 8 && bits <= 64 && (bits & (bits - 1)) == 0) {
    Value* wide = b_.CreateBitCast(group, b_.getIntNTy(bits));
    return b_.CreateBitCast(b_.CreateVectorSplat(type.lanes / lanes, wide), reg_type(type));
  }
  std::vector<int> pick;
  for (unsigned k = 0; k < type.lanes; ++k) pick.push_back(static_cast<int>(k % lanes));
  return b_.CreateShuffleVector(group, pick);
}

llvm::Value* KernelEmitter::dot(const Expr& e) {
  DType a_type = e.args[1]->type.dtype, b_type = e.args[2]->type.dtype;
  const DotChoice how = choose_dot(*can_.target, a_type, b_type);
  Value *acc = arg(e, 0), *a = arg(e, 1), *b = arg(e, 2);
  if (is_ptx(*can_.target) && how.instruction->form == DotForm::Native) return device_dot(acc, a, b, a_type, b_type);
  if (how.swapped) std::swap(a, b), std::swap(a_type, b_type);
  if (how.instruction->form == DotForm::Plain) return plain_dot(acc, a, b, a_type, b_type);
  // Vector by vector of the target.
  const unsigned lanes = e.type.lanes, group = lanes_of(a) / lanes;
  const unsigned width = std::clamp(lanes, 4u, can_.target->vector_bytes / 4);
  auto one = [&](Value* sum, Value* x, Value* y) {
    return how.instruction->form == DotForm::Pairs ? pairs_dot(sum, x, y, a_type, b_type) : native_dot_of(how, sum, x, y);
  };
  std::vector<Value*> parts;
  for (unsigned first = 0; first < lanes; first += width)
    parts.push_back(one(take_lanes(acc, first, width), take_lanes(a, first * group, width * group), take_lanes(b, first * group, width * group)));
  Value* all = concatenate(std::move(parts));
  if (lanes == 1) return b_.CreateExtractElement(all, uint64_t{0});
  return take_lanes(all, 0, lanes);
}

// A lane of the accumulator after the other. LLVM 19 has no intrinsic for it.
llvm::Value* KernelEmitter::device_dot(Value* acc, Value* a, Value* b, DType a_type, DType b_type) {
  const auto sign = [](DType t) { return std::string(is_signed_int(t) ? ".s32" : ".u32"); };
  const unsigned lanes = acc->getType()->isVectorTy() ? lanes_of(acc) : 1;
  llvm::Type* word = b_.getInt32Ty();
  const std::string text = "dp4a" + sign(a_type) + sign(b_type) + " $0, $1, $2, $3;";
  llvm::InlineAsm* code = llvm::InlineAsm::get(llvm::FunctionType::get(word, {word, word, word}, false), text, "=r,r,r,r", /*hasSideEffects=*/false);
  a = b_.CreateBitCast(a, with_lanes(word, lanes)), b = b_.CreateBitCast(b, with_lanes(word, lanes));
  if (lanes == 1) return b_.CreateCall(code, {b_.CreateBitCast(a, word), b_.CreateBitCast(b, word), acc});
  Value* sums = llvm::PoisonValue::get(acc->getType());
  for (unsigned k = 0; k < lanes; ++k) {
    Value* sum = b_.CreateCall(code, {b_.CreateExtractElement(a, k), b_.CreateExtractElement(b, k), b_.CreateExtractElement(acc, k)});
    sums = b_.CreateInsertElement(sums, sum, k);
  }
  return sums;
}

llvm::Value* KernelEmitter::native_dot_of(const DotChoice& how, Value* acc, Value* a, Value* b) {
  const std::string_view name = how.instruction->name;
  const unsigned lanes = lanes_of(acc);
  const ID id = native_dot(name, lanes);
  auto call = [&](Value* sum, Value* x, Value* y) -> Value* {
    if (how.instruction->a == DType::BF16) {
      llvm::Type* type = with_lanes(b_.getBFloatTy(), 2 * lanes);
      x = b_.CreateBitCast(x, type), y = b_.CreateBitCast(y, type);
    }
    if (how.instruction->machine == Machine::AArch64) return b_.CreateIntrinsic(id, {sum->getType(), x->getType()}, {sum, x, y});
    if (how.instruction->a == DType::BF16) return b_.CreateIntrinsic(id, {}, {sum, x, y});
    return b_.CreateIntrinsic(id, {}, {sum, b_.CreateBitCast(x, sum->getType()), b_.CreateBitCast(y, sum->getType())});
  };
  if (how.flip == DotChoice::Flip::None) return call(acc, a, b);
  Value* signs = splat_int(0x80, a->getType());
  Value* zero = llvm::Constant::getNullValue(acc->getType());
  if (how.flip == DotChoice::Flip::First) return call(b_.CreateSub(acc, call(zero, signs, b)), b_.CreateXor(a, signs), b);
  return call(b_.CreateSub(acc, call(zero, a, signs)), a, b_.CreateXor(b, signs));
}

// The bytes 0, 2, 4 .. (or 1, 3, 5 ..) as lanes of 16 bits.
llvm::Value* KernelEmitter::half_of_bytes(Value* bytes, bool is_signed, bool odd) {
  Value* v = b_.CreateBitCast(bytes, with_lanes(b_.getInt16Ty(), lanes_of(bytes) / 2));
  if (!odd && !is_signed) return b_.CreateAnd(v, splat_int(0xff, v->getType()));
  if (!odd) v = b_.CreateShl(v, 8);
  return is_signed ? b_.CreateAShr(v, 8) : b_.CreateLShr(v, 8);
}

llvm::Value* KernelEmitter::pairs_dot(Value* acc, Value* a, Value* b, DType a_type, DType b_type) {
  using namespace llvm::Intrinsic;
  const ID id = by_lanes(lanes_of(acc), x86_sse2_pmadd_wd, x86_avx2_pmadd_wd, x86_avx512_pmaddw_d_512);
  auto pairs = [&](Value* x, Value* y) { return b_.CreateIntrinsic(id, {}, {x, y}); };
  if (bits_of(a_type) == 16) return b_.CreateAdd(acc, pairs(a, b));
  auto half = [&](bool odd) {
    return pairs(half_of_bytes(a, is_signed_int(a_type), odd), half_of_bytes(b, is_signed_int(b_type), odd));
  };
  return b_.CreateAdd(acc, b_.CreateAdd(half(false), half(true)));
}

// Lanes of a group one after the other, each widened to a lane of the accumulator.
llvm::Value* KernelEmitter::plain_dot(Value* acc, Value* a, Value* b, DType a_type, DType b_type) {
  const bool is_float_sum = acc->getType()->isFPOrFPVectorTy();
  const unsigned bits = bits_of(a_type), group = 32 / bits;
  llvm::Type* wide = with_lanes(b_.getInt32Ty(), lanes_of(acc));
  a = b_.CreateBitCast(a, wide), b = b_.CreateBitCast(b, wide);
  auto lane = [&](Value* v, DType t, unsigned g) {
    Value* high = b_.CreateShl(v, 32 - bits * (g + 1));
    if (!is_float_sum) return is_signed_int(t) ? b_.CreateAShr(high, 32 - bits) : b_.CreateLShr(high, 32 - bits);
    return b_.CreateBitCast(b_.CreateAnd(high, splat_int(0xffff0000, wide)), acc->getType());  // bf16 is the high half of f32
  };
  for (unsigned g = 0; g < group; ++g) {
    Value *x = lane(a, a_type, g), *y = lane(b, b_type, g);
    if (!is_float_sum) acc = b_.CreateAdd(acc, b_.CreateMul(x, y));
    else if (can_.target->has_fma) acc = b_.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {x, y, acc});
    else acc = b_.CreateFAdd(acc, b_.CreateFMul(x, y));
  }
  return acc;
}

// Four bytes of a vector, shifted to their places in a word: the vector as it is, which instructions for codes take. Null: it is something else.
llvm::Value* KernelEmitter::word_of_bytes(const Expr& e) {
  const Expr *bytes = nullptr, *rest = &e;
  for (int64_t k = 3; k >= 0; --k) {
    const Expr* byte = rest;
    if (k > 0) {
      if (rest->op != Op::BitOr || rest->type != ir::Type{DType::U32, 1} || rest->args[1]->op != Op::Shl || !rest->args[1]->args[1]->is_int(8 * k)) return nullptr;
      byte = rest->args[1]->args[0], rest = rest->args[0];
    }
    if (byte->op != Op::Cast || byte->args[0]->type.dtype != DType::U8) return nullptr;
    byte = byte->args[0]->op == Op::Bitcast ? byte->args[0]->args[0] : byte->args[0];
    if (byte->op != Op::Extract || byte->i != k || byte->args[0]->type.lanes != 4 || bits_of(byte->type.dtype) != 8 || (bytes && bytes != byte->args[0])) return nullptr;
    bytes = byte->args[0];
  }
  return cache_.count(bytes) ? b_.CreateBitCast(value_of(bytes), b_.getInt32Ty()) : nullptr;
}

// The lower halves of two words, or the upper ones, as one: prmt. Null: it is something else.
llvm::Value* KernelEmitter::halves_of_words(const Expr& e) {
  constexpr uint32_t kLower = 0x5410, kUpper = 0x7632;  // bytes of the first word are 0 to 3
  if (!is_ptx(*can_.target) || e.op != Op::BitOr || e.type != ir::Type{DType::U32, 1}) return nullptr;
  const auto masked = [](const Expr* x, int64_t mask) { return x->op == Op::BitAnd && x->args[1]->is_int(mask) ? x->args[0] : nullptr; };
  const auto shifted = [](const Expr* x, Op by) { return x->op == by && x->args[1]->is_int(16) ? x->args[0] : nullptr; };
  for (const size_t k : {0, 1}) {
    const Expr *x = e.args[k], *y = e.args[1 - k];
    if (const Expr *low = masked(x, 0xffff), *high = shifted(y, Op::Shl); low && high) return permuted(low, high, kLower);
    if (const Expr *low = shifted(x, Op::Shr), *high = masked(y, 0xffff0000); low && high) return permuted(low, high, kUpper);
  }
  return nullptr;
}

llvm::Value* KernelEmitter::permuted(const Expr* low, const Expr* high, uint32_t bytes) {
  return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {}, {value_of(low), value_of(high), b_.getInt32(bytes)});
}

void KernelEmitter::mma(const loop::Stmt& s) {
  if (!can_.target->has_mma) return fail("a product of tiles, which this target does not have");
  Value *sums = eval(s.value), *a = sums ? eval(s.index[0]) : nullptr, *b = a ? eval(s.index[1]) : nullptr;
  if (!b) return;
  std::vector<Value*> operands;
  llvm::Type* cell = s.factors == DType::F16 ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getHalfTy(), 2)) : b_.getInt32Ty();
  for (Value* factor : {a, b})
    for (unsigned k = 0; k < lanes_of(factor); ++k) operands.push_back(b_.CreateBitCast(b_.CreateExtractElement(factor, k), cell));
  for (unsigned k = 0; k < lanes_of(sums); ++k) operands.push_back(b_.CreateExtractElement(sums, k));
  llvm::CallInst* call = b_.CreateIntrinsic(native_mma(s.factors, s.b_factors), {}, operands);
  call->setConvergent();  // all lanes of a warp come here: it may not move under a condition
  Value* result = llvm::PoisonValue::get(sums->getType());
  for (unsigned k = 0; k < lanes_of(sums); ++k) result = b_.CreateInsertElement(result, b_.CreateExtractValue(call, k), k);
  vars_[s.var->i] = result;
}

// A factor as an instruction takes it (PTX ISA, "Matrix descriptor format"): where it begins, the bytes from one group of eight rows, or of steps, to the next, those
// from 64 points to the next 64, and how chunks are swizzled in it. All but the first are counted in units of 16 bytes.
llvm::Value* KernelEmitter::group_factor(const loop::Stmt& s, bool of_b) {
  constexpr uint64_t kUnit = 16, kSwizzle64 = uint64_t{2} << 62, kSwizzle128 = uint64_t{1} << 62;
  const bool transposed = of_b ? s.b_transposed : s.transposed;
  const uint64_t rows_of_piece = 64, eight = transposed ? 8 * 128 : 8 * rows_of_piece, points = transposed ? loop::kGroupCells * 16 : kUnit;
  Value* place = eval(s.index[of_b]);
  if (!place) return nullptr;
  constexpr uint32_t kBytes = static_cast<uint32_t>(loop::kGroupCells) * bytes_of(DType::U32);
  // Addresses of shared memory have 32 bits, and so has all that varies.
  Value* at = b_.CreateAdd(b_.CreatePtrToInt(buffers_[s.array].base, b_.getInt32Ty()), b_.CreateMul(b_.CreateTrunc(place, b_.getInt32Ty()), b_.getInt32(kBytes)));
  at = b_.CreateAnd(b_.CreateLShr(at, 4), b_.getInt32(0x3fff));
  return b_.CreateOr(b_.CreateZExt(at, b_.getInt64Ty()), b_.getInt64((points / kUnit) << 16 | (eight / kUnit) << 32 | (transposed ? kSwizzle128 : kSwizzle64)));
}

void KernelEmitter::group_mma(const loop::Stmt& s) {
  constexpr unsigned kSteps = 2;  // of a piece
  if (!can_.target->has_group_mma) return fail("a product of groups of lanes, which this target does not have");
  if (s.array >= buffers_.size()) return fail("a product of what lies in an unknown buffer");
  Value *a = group_factor(s, false), *b = a ? group_factor(s, true) : nullptr;
  if (!b) return;
  const bool of_codes = s.b_factors != DType::None;
  const size_t count = 4 * s.sums.size();
  std::vector<Value*> operands;
  std::string registers, outputs, inputs;
  for (const Expr* var : s.sums) {
    const auto slot = locals_.find(var->i);
    if (slot == locals_.end()) return fail("adds to a variable that is no local");
    Value* sums = read(slot->second);
    for (unsigned k = 0; k < 4; ++k) {
      const std::string number = std::to_string(operands.size());
      registers += (operands.empty() ? "$" : ", $") + number, outputs += of_codes ? "=r," : "=f,", inputs += number + ",";
      operands.push_back(b_.CreateExtractElement(sums, k));
    }
  }
  const auto name = [&](DType t) { return std::string(of_codes ? (t == DType::I8 ? "s8" : "u8") : t == DType::F16 ? "f16" : "bf16"); };
  const std::string shape = "m64n" + std::to_string(8 * s.sums.size()) + (of_codes ? "k32.s32." : "k16.f32.") + name(s.factors) + "." + name(of_codes ? s.b_factors : s.factors);
  const std::string last = of_codes ? "" : std::string(", 1, 1, ") + (s.transposed ? "1" : "0") + ", " + (s.b_transposed ? "1" : "0");
  std::string text = "{\n.reg .pred added;\nsetp.eq.u32 added, 0, 0;\nwgmma.fence.sync.aligned;\n";
  for (unsigned step = 0; step < kSteps; ++step) {
    const auto place = [&](Value* factor, bool transposed) {
      operands.push_back(step == 0 ? factor : b_.CreateAdd(factor, b_.getInt64((transposed ? 16 * 128 : 32) / 16 * step)));
      inputs += "l,";
      return "$" + std::to_string(count + operands.size() - 1);
    };
    const std::string of_a = place(a, s.transposed), of_b = place(b, s.b_transposed);
    text += "wgmma.mma_async.sync.aligned." + shape + " {" + registers + "}, " + of_a + ", " + of_b + ", added" + last + ";\n";
  }
  text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}";
  llvm::Type* sum = of_codes ? static_cast<llvm::Type*>(b_.getInt32Ty()) : b_.getFloatTy();
  std::vector<llvm::Type*> types;
  for (Value* operand : operands) types.push_back(operand->getType());
  llvm::Type* result = llvm::StructType::get(context_, std::vector<llvm::Type*>(count, sum));
  llvm::InlineAsm* code = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, outputs + inputs + "~{memory}", /*hasSideEffects=*/true);
  llvm::CallInst* call = b_.CreateCall(code, operands);
  call->setConvergent();  // all lanes of the group come here: it may not move under a condition
  for (size_t j = 0; j < s.sums.size(); ++j) {
    Value* sums = llvm::PoisonValue::get(llvm::FixedVectorType::get(sum, 4));
    for (unsigned k = 0; k < 4; ++k) sums = b_.CreateInsertElement(sums, b_.CreateExtractValue(call, static_cast<unsigned>(4 * j) + k), k);
    write(locals_[s.sums[j]->i], sums);
  }
}

}  // namespace mlc::targets
