// Division by a constant, where only the rounded quotient counts and few integers can come out: two operations for a division that
// takes ten times as long.
#pragma once

#include <optional>

namespace mlc::targets {

struct Quotient {
  float high = 0, low = 0;  // together 1 / divisor; neither is negative
};

// rint(x / divisor) == rint(fma(x, high, x * low)) for every x where one of them lies in [least, most], and where one is below, above or
// not a number, so is the other; computed in f32. With low == 0 the product x * high alone will do, and must: infinity times 0 is none.
// Proved for this divisor: both sides never fall as x grows, so it is enough that they step from each integer to the next between the same
// two floats. Nothing: the divisor is not positive, or so extreme that a part would not be normal, or a step differs.
std::optional<Quotient> quotient_by(float divisor, int least, int most);

}  // namespace mlc::targets
