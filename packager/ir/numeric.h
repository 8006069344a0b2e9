// Numbers as the machine holds them: conversions between narrow floating-point formats and float, rounding a value to a
// type, and the scalar operations of expr.h on one value. Used for constant folding and by the interpreter.
//
// Integer division by zero gives 0 (and a remainder of 0), a shift by the width or more gives 0 (or the sign), and the
// least integer divided by -1 wraps: no operation of the compiler traps.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "packager/ir/expr.h"

namespace mlc::ir {

// Round to nearest, ties to even; overflow gives infinity (f8e4m3, the fnuz types and f8e8m0, which have none: NaN;
// f6e2m3, f6e3m2 and f4e2m1, which have no NaN either: the largest number, and -0 for NaN). f8e8m0 holds powers of two only: the sign is
// dropped, a tie goes up, 0 gives 2^-127.
uint16_t f16_bits(float value);
float f16_value(uint16_t bits);
uint16_t bf16_bits(float value);
float bf16_value(uint16_t bits);
float tf32_value(float value);  // Op::Tf32
uint8_t f8_bits(DType type, float value);
float f8_value(DType type, uint8_t bits);

double round_to(DType type, double value);      // nearest value of a floating-point type
int64_t wrap_to(DType type, int64_t value);     // low bits of an integer type, sign- or zero-extended; Bool: != 0
int64_t lowest_int(DType type);
int64_t highest_int(DType type);                // U64: -1, that is all ones
double lowest_finite(DType type);               // f8e8m0: 2^-127
double highest_finite(DType type);

// One scalar; `i` for integers and Bool (u64 as its bits), `f` for floating point.
struct Scalar {
  int64_t i = 0;
  double f = 0;
};
// `from` is the type of the operand, `to` that of the result. Every operation of one operand, conversions included.
Scalar apply_unary(Op op, DType from, DType to, Scalar a);
// Arithmetic and comparisons; `type` is the type of the operands.
Scalar apply_binary(Op op, DType type, Scalar a, Scalar b);

// Element `index` of an array in memory, and back (types of less than 8 bits take a byte each).
Scalar load_element(DType type, const void* data, uint64_t index);
void store_element(DType type, void* data, uint64_t index, Scalar value);

}  // namespace mlc::ir
