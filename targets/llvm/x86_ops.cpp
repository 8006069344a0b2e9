// Operations that x86 has in one instruction while LLVM makes several of them: the same values, bit for bit. And tiles, which are AMX.
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include <set>

#include "targets/families.h"
#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

using llvm::Value;
using ID = llvm::Intrinsic::ID;

namespace {

constexpr unsigned kLineBytes = 64;  // of a row of a tile
constexpr unsigned kRegisters = 8, kFirstRows = loop::kTiles, kFirstColumns = 6;

// The operand of ldtilecfg: palette 1, bytes of a row from byte 16 on, rows from byte 48 on (Intel's manual, volume 2, LDTILECFG).
std::vector<uint8_t> configuration(unsigned bytes) {
  std::vector<uint8_t> c(64, 0);
  c[0] = 1;
  for (unsigned t = 0; t < kRegisters; ++t) {
    c[16 + 2 * t] = static_cast<uint8_t>(t >= kFirstRows && t < kFirstColumns ? bytes : kLineBytes);
    c[48 + t] = static_cast<uint8_t>(t < kFirstColumns ? loop::kTileSide : bytes / 4);
  }
  return c;
}

llvm::Intrinsic::ID dot_of(DType a, DType b) {
  using namespace llvm::Intrinsic;
  if (a == DType::BF16) return x86_tdpbf16ps;
  if (is_signed_int(a)) return is_signed_int(b) ? x86_tdpbssd : x86_tdpbsud;
  return is_signed_int(b) ? x86_tdpbusd : x86_tdpbuud;
}

// Adds the bytes of a row of all tiles of a block.
void add_row_bytes(const std::vector<loop::StmtPtr>& block, std::set<int64_t>& bytes) {
  for (const loop::StmtPtr& s : block) {
    if (s->kind == loop::StmtKind::Tiles && s->tile_op == loop::TileOp::Begin) bytes.insert(s->step);
    add_row_bytes(s->body, bytes);
    add_row_bytes(s->orelse, bytes);
  }
}

}  // namespace

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

// a * b where that is the last product of exp_f32 (ops/math.mlop): p * 2^(n +- 64) * 2^-+64, n = t - whole, t = c * log2 e + whole. One
// vscalefps rounds as the last of the two products does. The signs are not asked for then: `whole` becomes 1.5 * 2^23 for all lanes, which
// leaves n as it is, since all three values are even in units of the last place. What is below half of the least number is masked, for
// vscalefps takes a hundred cycles for each underflow, and masked scores are all below. Null: it is none, or no such instruction.
llvm::Value* KernelEmitter::x86_scaled(Value* a, Value* b) {
  using namespace llvm::PatternMatch;
  using namespace llvm::Intrinsic;
  constexpr double kAbove = 12582848, kBelow = 12582976, kWhole = 12582912;  // 1.5 * 2^23 less and plus 64
  constexpr int kLeast = -150;                                               // 2^-150 is half of the least number
  const unsigned lanes = lanes_of(a);
  if (can_.target->machine != Machine::X86_64 || !a->getType()->getScalarType()->isFloatTy() || (lanes != 16 && lanes != 8 && lanes != 4)) return nullptr;
  if (!has_feature(*can_.target, "x86.avx512f") || (lanes < 16 && !has_feature(*can_.target, "x86.avx512vl"))) return nullptr;
  Value *p = nullptr, *t = nullptr, *c = nullptr, *log2e = nullptr, *low = nullptr, *whole = nullptr;
  const auto power = m_BitCast(m_Add(m_Shl(m_BitCast(m_Value(t)), m_SpecificInt(23)), m_SpecificInt(1065353216)));
  if (match(a, m_Select(m_Value(), m_Value(), m_Value()))) std::swap(a, b);  // factors come in any order
  if (!match(a, m_c_FMul(m_Value(p), power)) || !match(b, m_Select(m_Value(low), m_SpecificFP(0x1p-64), m_SpecificFP(0x1p64)))) return nullptr;
  if (!match(t, m_Intrinsic<fma>(m_Value(c), m_Value(log2e), m_Value(whole)))) return nullptr;
  if (!match(whole, m_Select(m_Specific(low), m_SpecificFP(kBelow), m_SpecificFP(kAbove)))) return nullptr;
  Value* n = nullptr;
  for (llvm::User* user : t->users())
    if (match(user, m_FSub(m_Specific(t), m_Specific(whole)))) n = user;
  auto* difference = llvm::dyn_cast_if_present<llvm::Instruction>(n);
  if (!difference) return nullptr;

  Value* moved = nullptr;
  {
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(difference);
    Value* middle = splat_const(kWhole, a->getType());
    moved = b_.CreateFSub(b_.CreateIntrinsic(fma, {a->getType()}, {c, log2e, middle}), middle);
    difference->replaceAllUsesWith(moved);
  }
  Value* kept = b_.CreateFCmpUGE(moved, splat_const(kLeast, a->getType()));
  if (lanes == 4) kept = b_.CreateShuffleVector(kept, llvm::Constant::getNullValue(kept->getType()), llvm::ArrayRef<int>{0, 1, 2, 3, 4, 5, 6, 7});
  const ID id = lanes == 16 ? x86_avx512_mask_scalef_ps_512 : lanes == 8 ? x86_avx512_mask_scalef_ps_256 : x86_avx512_mask_scalef_ps_128;
  std::vector<Value*> args{p, moved, llvm::Constant::getNullValue(a->getType()), b_.CreateBitCast(kept, b_.getIntNTy(std::max(lanes, 8u)))};
  if (lanes == 16) args.push_back(b_.getInt32(4));
  return b_.CreateIntrinsic(id, {}, args);
}

// ---- loop::StmtKind::Tiles by AMX ----
//
// Registers 0 to 3 are the tiles of sums, 4 and 5 hold rows of a, 6 and 7 columns of b. Which register is which is
// said here, not left to the allocator of LLVM, so that code is what Loop says; all of them belong to one kernel at a time, which releases
// them where it returns. ldtilecfg takes 180 cycles, and what follows waits for it: a kernel whose tiles all have rows of one length does that once,
// where it begins, and clears its sums with tilezero from then on.
void KernelEmitter::configure_tiles() {
  std::set<int64_t> bytes;
  add_row_bytes(kernel_->body, bytes);
  if (bytes.size() != 1 || !can_.target->has_tiles) return;
  configured_bytes_ = *bytes.begin();
  load_configuration(configured_bytes_);
}

void KernelEmitter::load_configuration(int64_t row_bytes) {
  const std::vector<uint8_t> operand = configuration(static_cast<unsigned>(row_bytes));
  llvm::Constant* bytes = llvm::ConstantDataArray::get(context_, llvm::ArrayRef(operand));
  auto* global = new llvm::GlobalVariable(module_, bytes->getType(), true, llvm::GlobalValue::PrivateLinkage, bytes, "tiles");
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});  // all registers are zero then
  uses_tiles_ = true;
}

// The factor at `first`, in one of the two registers from `registers` on: it is loaded unless it is there.
llvm::Value* KernelEmitter::tile_factor(const Expr* first, const Expr* stride, unsigned registers) {
  const auto is_it = [&](const TileFactor& f) { return f.first == first && f.stride == stride; };
  TileFactor* factors = tile_factors_.data() + (registers - kFirstRows);
  const unsigned k = is_it(factors[0]) || (!is_it(factors[1]) && factors[0].age <= factors[1].age) ? 0 : 1;
  Value* number = b_.getInt8(static_cast<uint8_t>(registers + k));
  factors[k].age = ++tile_uses_;
  if (is_it(factors[k])) return number;
  factors[k].first = first, factors[k].stride = stride;
  Value *at = eval(first->args[0]), *elements = at && stride ? eval(stride) : nullptr;
  if (!at || (stride && !elements)) return nullptr;
  Value* bytes = stride ? b_.CreateNSWMul(elements, b_.getInt64(bytes_of(first->type.dtype))) : b_.getInt64(kLineBytes);
  b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {number, element_pointer(first->array, first->type.dtype, at), bytes});
  return number;
}

void KernelEmitter::tiles(const loop::Stmt& s) {
  if (!can_.target->has_tiles) return fail("tiles, which this target does not have");
  if (s.tile_op != loop::TileOp::Dot) tile_factors_ = {};
  switch (s.tile_op) {
    case loop::TileOp::Begin:
      if (s.step != configured_bytes_) return load_configuration(s.step);
      for (uint8_t tile = 0; tile < loop::kTiles; ++tile) b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {b_.getInt8(tile)});
      return;
    case loop::TileOp::Dot: {
      Value* a = tile_factor(s.index[0], s.index[1], kFirstRows);
      Value* b = a ? tile_factor(s.index[2], nullptr, kFirstColumns) : nullptr;
      if (b) b_.CreateIntrinsic(dot_of(s.index[0]->type.dtype, s.index[2]->type.dtype), {}, {b_.getInt8(s.tile), a, b});
      return;
    }
    case loop::TileOp::Store: {
      Value* at = eval(s.index[0]);
      if (at) b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {}, {b_.getInt8(s.tile), element_pointer(s.array, DType::I32, at), b_.getInt64(kLineBytes)});
      return;
    }
  }
}

void KernelEmitter::release_tiles() {
  if (!uses_tiles_) return;
  for (llvm::BasicBlock& block : *function_)
    if (llvm::isa_and_nonnull<llvm::ReturnInst>(block.getTerminator())) {
      b_.SetInsertPoint(block.getTerminator());
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    }
}

}  // namespace mlc::targets
