// Numbers rounded to codes of 8 bits: sat<T>(rint(x / scale) + zero), the end of every kernel of a quantised network. Operation by
// operation it is a division, a rounding, a test for NaN, two limits in f32 and a conversion. What the interpreter gives bit for bit
// takes half of that: a division by a constant is two products (targets/quotient.h), the conversion rounds, and limits and tests that
// cannot matter for what x is made of are left out.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "targets/families.h"
#include "targets/llvm/kernel_emitter.h"
#include "targets/quotient.h"

namespace mlc::targets {

using ir::Expr;
using ir::Op;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kWild = 0x1p30;  // beyond it a number may not fit into i32, zero points included
constexpr unsigned kMostDepth = 8;

const Expr* scalar(const Expr* e) { return e->op == Op::Splat && e->args[0]->type.lanes == 1 ? e->args[0] : e; }

std::optional<double> constant_f32(const Expr* e) {
  e = scalar(e);
  if (e->op != Op::Const || e->type.dtype != DType::F32) return std::nullopt;
  return static_cast<float>(e->f);
}

// What a value of f32 can be.
struct Span {
  double low = -kInfinity, high = kInfinity;
  bool nan = true;
  bool finite() const { return low > -kInfinity && high < kInfinity && !nan; }
};

// Every operation of f32 may be off by half a step: the ends move by more.
Span widened(double low, double high) {
  constexpr double kStep = 0x1p-22, kMost = 0x1p120;
  if (!(low > -kMost && high < kMost)) return {};
  return {low - std::fabs(low) * kStep, high + std::fabs(high) * kStep, false};
}

Span of_integers(DType t) {
  const unsigned bits = bits_of(t);
  const double span = std::ldexp(1.0, static_cast<int>(bits));
  return is_signed_int(t) ? widened(-span / 2, span / 2 - 1) : widened(0, span - 1);
}

Span span_of(const Expr* e, unsigned depth = 0) {
  e = scalar(e);
  if (depth > kMostDepth || e->type.dtype != DType::F32) return {};
  const auto of = [&](unsigned k) { return span_of(e->args[k], depth + 1); };
  switch (e->op) {
    case Op::Const: return widened(e->f, e->f);
    case Op::Cast: return is_int(e->args[0]->type.dtype) ? of_integers(e->args[0]->type.dtype) : Span{};
    case Op::Rint: {
      const Span a = of(0);
      return {std::nearbyint(a.low), std::nearbyint(a.high), a.nan};
    }
    case Op::Max: case Op::Min: {
      const Span a = of(0), b = of(1);
      const auto pick = [&](double x, double y) { return e->op == Op::Max ? std::max(x, y) : std::min(x, y); };
      return {pick(a.low, b.low), pick(a.high, b.high), a.nan || b.nan};
    }
    case Op::Add: case Op::Sub: case Op::Mul: {
      const Span a = of(0), b = of(1);
      if (!a.finite() || !b.finite()) return {};
      if (e->op == Op::Add) return widened(a.low + b.low, a.high + b.high);
      if (e->op == Op::Sub) return widened(a.low - b.high, a.high - b.low);
      const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
      return widened(low, high);
    }
    default: return {};
  }
}

}  // namespace

// The number, the divisor and the zero point in e = sat<T>(rint(real / scale) + zero), where only the number has to be there.
std::optional<KernelEmitter::Coding> KernelEmitter::coding_of(const Expr& e) const {
  if (in_scratch_ || e.op != Op::SatCast || !is_int(e.type.dtype) || bits_of(e.type.dtype) != 8 || e.args[0]->type.dtype != DType::F32) return std::nullopt;
  Coding c;
  c.type = e.type.dtype;
  const Expr* rounded = e.args[0];
  if (rounded->op == Op::Add) {
    const unsigned k = constant_f32(rounded->args[0]) ? 0 : 1;
    const auto zero = constant_f32(rounded->args[k]);
    if (!zero || *zero != std::nearbyint(*zero) || std::fabs(*zero) > 255) return std::nullopt;
    c.zero = static_cast<int>(*zero);
    rounded = rounded->args[1 - k];
  }
  if (rounded->op != Op::Rint) return std::nullopt;
  c.real = rounded->args[0];
  if (c.real->op == Op::Div) {
    const auto divisor = constant_f32(c.real->args[1]);
    const int least = c.type == DType::I8 ? -128 : 0;
    if (divisor && can_.fma && cache_.count(c.real->args[0])) c.quotient = quotient_by(static_cast<float>(*divisor), least - c.zero, least + 255 - c.zero);
    if (c.quotient) c.divisor = *divisor, c.real = c.real->args[0];
  }
  return cache_.count(c.real) ? std::optional(c) : std::nullopt;
}

// With its sign bit flipped a code is one of the other type, with the zero point 128 further.
std::optional<KernelEmitter::Coding> KernelEmitter::flipped_coding_of(const Expr& e) const {
  const Expr *other = scalar(e.args[1]), *code = e.args[0];
  if (e.op != Op::BitXor || other->op != Op::Const || (other->i & 255) != 128 || bits_of(e.type.dtype) != 8 || code->op != Op::Bitcast) return std::nullopt;
  auto c = coding_of(*code->args[0]);
  if (!c || c->type == e.type.dtype) return std::nullopt;
  const int by = c->type == DType::I8 ? 128 : -128;
  c->type = e.type.dtype;
  c->zero += by;
  c->of_nan = by;
  return c;
}

// Rounded to the nearest i32, ties to even: what does not fit is the lowest one, NaN is `of_nan`.
llvm::Value* KernelEmitter::nearest_integers(Value* v, bool may_be_nan, int of_nan) {
  using namespace llvm::Intrinsic;
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  llvm::Type* type = v->getType()->getWithNewType(b_.getInt32Ty());
  Value* is_number = may_be_nan ? b_.CreateFCmpORD(v, v) : nullptr;
  if (lanes == 16 && has_feature(*can_.target, "x86.avx512f")) {
    constexpr uint32_t kCurrentDirection = 4;
    Value* mask = is_number ? b_.CreateBitCast(is_number, b_.getInt16Ty()) : b_.getInt16(0xffff);
    return b_.CreateIntrinsic(x86_avx512_mask_cvtps2dq_512, {}, {v, llvm::ConstantInt::getSigned(type, of_nan), mask, b_.getInt32(kCurrentDirection)});
  }
  Value* i = lanes == 8 && has_feature(*can_.target, "x86.avx") ? b_.CreateIntrinsic(x86_avx_cvt_ps2dq_256, {}, {v})
                                                                 : b_.CreateIntrinsic(x86_sse2_cvtps2dq, {}, {v});
  return is_number ? b_.CreateSelect(is_number, i, llvm::ConstantInt::getSigned(type, of_nan)) : i;
}

// The codes as i32, of which the lowest byte will be taken or all. Null: the plain operations are as good.
llvm::Value* KernelEmitter::wide_codes(const Coding& c, bool to_bytes) {
  using llvm::Intrinsic::smax, llvm::Intrinsic::smin;
  Value* v = value_of(c.real);
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  const bool is_x86 = can_.target->machine == Machine::X86_64 &&
                      (lanes == 4 || (lanes == 8 && has_feature(*can_.target, "x86.avx")) || (lanes == 16 && has_feature(*can_.target, "x86.avx512f")));
  if (!is_x86) return nullptr;
  Span span = span_of(c.real);
  span.low /= c.divisor, span.high /= c.divisor;
  if (c.quotient) {
    Value* high = splat_const(c.quotient->high, v->getType());
    v = c.quotient->low == 0 ? b_.CreateFMul(v, high)
                             : intrinsic(llvm::Intrinsic::fma, {v, high, b_.CreateFMul(v, splat_const(c.quotient->low, v->getType()))});
  }
  // Limits of the rounded quotient. Below those of i32 the conversion gives the lowest number, above them too: there it needs a limit before.
  const int least = c.type == DType::I8 ? -128 : 0, low = least - c.zero, high = low + 255;
  const bool below = !(span.low >= low), above = !(span.high <= high), wild = !(span.high < kWild);
  if (wild) v = x86_min_max(/*is_min=*/true, splat_const(high, v->getType()), v);
  Value* i = nearest_integers(v, span.nan, c.of_nan - c.zero);
  const auto limit = [&](Value* x, int by) {
    if (below) x = b_.CreateBinaryIntrinsic(smax, x, llvm::ConstantInt::getSigned(x->getType(), low + by));
    // Both limits and a truncation are one saturating move.
    if ((above && !wild) || (to_bytes && below && by == c.zero && c.type == DType::I8)) x = b_.CreateBinaryIntrinsic(smin, x, llvm::ConstantInt::getSigned(x->getType(), high + by));
    return x;
  };
  const auto moved = [&](Value* x) { return c.zero == 0 ? x : b_.CreateAdd(x, llvm::ConstantInt::getSigned(x->getType(), c.zero)); };
  return c.zero >= 0 ? limit(moved(i), c.zero) : moved(limit(i, 0));  // the lowest number has no room below it
}

llvm::Value* KernelEmitter::codes(const std::optional<Coding>& c) {
  Value* i = c ? wide_codes(*c, /*to_bytes=*/true) : nullptr;
  if (!i) return nullptr;
  const bool is_signed = c->type == DType::I8;
  return b_.CreateTrunc(i, i->getType()->getWithNewType(b_.getInt8Ty()), "", /*IsNUW=*/!is_signed, /*IsNSW=*/is_signed);
}

// Codes that are numbers again at once need not be bytes in between.
llvm::Value* KernelEmitter::codes_as_f32(const Expr& e) {
  if (e.op != Op::Cast || e.type.dtype != DType::F32) return nullptr;
  const auto c = coding_of(*e.args[0]);
  Value* i = c ? wide_codes(*c, /*to_bytes=*/false) : nullptr;
  return i ? b_.CreateSIToFP(i, reg_type(e.type)) : nullptr;
}

}  // namespace mlc::targets
