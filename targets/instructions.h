// Which instructions compute ir::Op::Dot, on which targets and at what price: the emitter takes the cheapest one, and code that
// schedules a product asks here which signs of its operands suit the target and what a step costs. Whatever is chosen, the
// result is that of expr.h: no instruction is listed that saturates on the way.
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "packager/loop/loop.h"
#include "targets/target.h"

namespace mlc::targets {

enum class DotForm : uint8_t {
  Native,  // one instruction takes the operands as they are: vpdpbusd, sdot, bfdot
  Pairs,   // x86: pmaddwd on pairs of 16 bits; vectors of bytes are split into their even and their odd ones before
  Plain,   // multiplications and additions of lanes
};

struct DotInstruction {
  std::string_view name;     // as an assembler calls it; "plain"
  DotForm form;
  Machine machine;           // None: the portable form
  DType a, b;                // what it multiplies
  std::string_view feature;  // registry name that a target must list; empty: all targets of the machine
  unsigned steps;            // instructions for one vector of sums
  unsigned splits;           // for one vector of either operand, shared by all sums that it enters
  unsigned parts;            // registers that a vector of an operand takes then
};

// How a target computes Dot(acc, a, b) for operands of these types.
struct DotChoice {
  const DotInstruction* instruction;
  bool swapped = false;       // the instruction takes b first
  // The instruction wants one operand with the other sign. Its sign bits are flipped, which moves its values by 128, and
  // what that adds to the sum is taken from acc: dot(acc - dot(0, 0x80.., y), x ^ 0x80.., y). The inner dot is the same for
  // all sums that y enters.
  enum class Flip : uint8_t { None, First, Second } flip = Flip::None;  // of the instruction's operands

  unsigned steps() const { return instruction->steps + (flip != Flip::None); }
  unsigned parts() const { return instruction->parts + (flip != Flip::None); }  // registers for a vector of an operand
  friend bool operator==(const DotChoice&, const DotChoice&) = default;
};
DotChoice choose_dot(const Target& target, DType a, DType b);

// Of `target` and those it is based on the one that asks for least and computes every Dot of the kernel in the same way: what
// the kernel's code is made for, so that targets which differ in nothing that a kernel uses have the same code for it.
const Target& least_target(const Target& target, const loop::Kernel& kernel);

}  // namespace mlc::targets
