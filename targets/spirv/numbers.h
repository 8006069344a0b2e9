// The operations of Loop on one element of each type, as SPIR-V. What they mean is in packager/ir/expr.h.
//
// How an element is held: truth values and floats of 32 and 64 bits as such; integers below 64 bits in 32, sign- or zero-extended;
// smaller floats as their bits, and computed with as floats of 32 bits. So a device needs 8 and 16 bits in memory only.
//
// Vulkan lets division and square root be wrong by some units, takes 64-bit shifts only below 64, and leaves open what does not fit in
// a conversion: nothing here relies on more than it promises. See spec/decisions/targets.md for division.
#pragma once

#include "base/dtype.h"
#include "packager/ir/expr.h"
#include "targets/spirv/body.h"

namespace mlc::targets::spirv {

Reg reg_of(DType t);
constexpr bool is_small(DType t) { return is_float(t) && t != DType::F32 && t != DType::F64; }

class Numbers {
 public:
  explicit Numbers(Body& code) : c_(code) {}

  Id constant(DType t, int64_t i, double f);
  // 0 where there is no such operation. `divisor`: the second operand, where it is a constant.
  Id unary(ir::Op op, DType t, Id a);
  Id binary(ir::Op op, DType t, Id a, Id b, const int64_t* divisor = nullptr);
  Id fma(DType t, Id a, Id b, Id c);
  Id cast(DType from, DType to, Id a);
  Id sat_cast(DType from, DType to, Id a);
  Id bitcast(DType from, DType to, Id a);
  Id to_f32(DType t, Id bits);     // of what is_small
  Id from_f32(DType t, Id value);
  // From what memory holds, as an unsigned number of at least 32 bits, and back.
  Id from_raw(DType t, Id raw);
  Id to_raw(DType t, Id value);

 private:
  Id narrow(DType t, Id wide);     // the low bits of 32, extended
  Id float_unary(ir::Op op, Reg reg, Id a);
  Id float_binary(ir::Op op, Reg reg, Id a, Id b);
  Id int_binary(ir::Op op, DType t, Id a, Id b, const int64_t* divisor);
  Id bool_binary(ir::Op op, Id a, Id b);
  Id compare(ir::Op op, DType t, Id a, Id b);
  Id divide_integers(ir::Op op, DType t, Id a, Id b, const int64_t* divisor);
  Id shift(bool left, DType t, Id a, Id b, const int64_t* amount);
  Id power(DType t, Id a, Id b);
  Id bits(Reg reg, Id a);          // of a float, as an integer of its width
  Id is_nan(Reg reg, Id a);
  Id min_max(bool is_min, Reg reg, Id a, Id b);
  Id divide(Reg reg, Id a, Id b);
  Id square_root(Reg reg, Id a);
  Id residual(Id a, Id x, Id y);   // a - x * y, for x * y near a
  Id is_moderate(Id a);
  Id remainder(Reg reg, Id x, Id y);
  Id truncate(DType to, Reg from, Id a);  // a float to integers of 32 or 64 bits, clamped; NaN gives 0
  Id f64_to_small(DType t, Id value);
  Id integer_to_float(DType from, Reg to, Id a);

  Body& c_;
};

}  // namespace mlc::targets::spirv
