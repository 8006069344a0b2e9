// Text form of a plan: what `mlpack inspect --plan` shows. What print writes, parse reads back.
//
//   plan
//   function "main" {
//     $0 = const 3
//     $1 = dim 0 1                      ; of input 0, axis 1
//     $2 = mul $0 $1
//     check $2 after 3 "the batch is empty"
//     buffer #0 f32 bytes $2 input 0
//     buffer #1 f32 bytes $2 constant 7 copy 0
//     buffer #2 f32 bytes $2 arena $0
//     input "x" f32 [$1, $0] #0
//     arena $2
//     launch 12 (#0, #1, #2) ($2) tiles $1 static "Conv_0"
//     copy (#3, #2) one
//     fill (#2) 127 static nobarrier
//   }
//
// Symbols are $n, buffers #n, kernels and tensors plain numbers. Names of operations are those of schema/plan.fbs in small
// letters; fconst takes the bits of the double. Comments start with ';': print notes constant sizes and doubles in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/plan/plan.h"

namespace mlc::plan {

std::string print(const exec::Plan& plan);

// Malformed with the line if the text is not of the form above. Whether the plan makes sense is for the one verifier of
// plans to say: exec::decode_plan on the bytes of it.
Result<exec::Plan> parse(std::string_view text);

// The bytes of a plan segment.
std::vector<std::byte> encode(const exec::Plan& plan);

// The words for operations, in the order of their numbers; 0 is not used.
inline constexpr std::string_view kSymbolOpWords[] = {
    "",    "const", "dim", "add", "sub",    "mul",      "floordiv", "ceildiv", "mod",  "min",  "max",    "eq",
    "ne",  "lt",    "le",  "and", "or",     "not",      "select",   "todouble", "fadd", "fsub", "fmul",   "fdiv",
    "ffloor", "fceil", "frint", "ftrunc", "fmin", "fmax", "flt", "fle", "fconst", "fsqrt", "froundf32"};
static_assert(std::size(kSymbolOpWords) == exec::kLastSymbolOp + 1);
inline constexpr std::string_view kShareWords[] = {"static", "counter", "one"};
static_assert(std::size(kShareWords) == exec::kLastShare + 1);
int operands_of(exec::SymbolOp op);  // symbols that it reads

}  // namespace mlc::plan
