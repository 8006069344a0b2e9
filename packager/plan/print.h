// Text form of a plan: what `mlpack inspect --plan` shows. `text.h` reads it back.
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
//     buffer #3 f32 bytes $2 output 0 at $0   ; a part of it, from a byte on
//     input "x" f32 [$1, $0] #0
//     arena $2
//     launch 12 (#0, #1, #2) ($2, $1) tiles $0 cut 1 $1 $2 work $2 scratch $2 "Conv_0"  ; scalar 1, units, bytes of each; nanoseconds; bytes
//     launch 5 (#0, #1) ($2, $1) tiles $0 turns 0 $2 parts 1 $1 "LSTM_3"  ; turns that workers may make together: scalar 0; parts of a tile: scalar 1
//     launch 3 (#0, #1) () tiles $0 operations $2 read $2 written $1 of_bytes "MatMul_1"  ; figures for profiles
//     launch 4 (#0, #1) () tiles $0 steps $2 "ReduceSum_2"  ; of a device: turns of the loops of a lane
//     copy (#3, #2)
//     copy (#2, #1) after 1              ; of the instructions before it only the first must be done
//   }
//
// Derived constants are told in front of the functions: which function computes them, and the bytes of each. Buffers name them by number.
//
//   plan
//   derive "derive" 9437184 2359296
//   ...
//     buffer #1 f32 bytes $2 derived 0
//
// A program declares values instead of buffers, and has steps:
//
//   function "loop" {
//     $0 = dim 0 0
//     input "x" f32 [$0] %0
//     input "more" bool list 1 %1       ; list depth; the element type is that of the arrays in it
//     output "y" f32 rank 2 %3
//     %2 = list_at (%1, %7) "SequenceAt_3"
//     %3, -, %5 = loop "loop/body" carried 1 (-, %2, %0)
//     %6 = branch "loop/then" "loop/else" (%2, %0)
//     call "loop/print" (%6)
//     %8 = list_make f32 list 1 ()           ; the type only where there are no items
//     %9 = list_insert (%8, %3, -)           ; also erase, length
//     %10 = list_concat axis 0 new (%9)      ; `new`: a new axis
//     %12 = list_split axis 0 drop (%10, -)  ; `drop`: pieces of length 1 lose the axis
//     %13, %14 = string_split cuts 1 (%15, %16)
//     %17, %18 = string_tokens letters 2 between (%15, %19)  ; `between`: what the table does not accept
//     %20 = string_normalize lower match_case (%15, %16)     ; lower, upper, or neither
//     %21 = number_from_string integers (%15)
//     %11 = host "image.decode" "RGB" u8 [-1, -1, 3] (%0)   ; service, options, results: -1 where the run tells
//   }
//
// Values are %n, an absent operand or a result without a consumer is '-'. Symbols are $n, buffers #n, kernels and tensors plain numbers. Names of operations are those of schema/plan.fbs in small
// letters; fconst takes the bits of the double. Comments start with ';': print notes constant sizes and doubles in them.
#pragma once

#include <string>
#include <string_view>

#include "schema/plan/plan.h"

namespace mlc::plan {

std::string print(const exec::Plan& plan);

// The words for operations, in the order of their numbers; 0 is not used.
inline constexpr std::string_view kSymbolOpWords[] = {
    "",    "const", "dim", "add", "sub",    "mul",      "floordiv", "ceildiv", "mod",  "min",  "max",    "eq",
    "ne",  "lt",    "le",  "and", "or",     "not",      "select",   "todouble", "fadd", "fsub", "fmul",   "fdiv",
    "ffloor", "fceil", "frint", "ftrunc", "fmin", "fmax", "flt", "fle", "fconst", "fsqrt", "froundf32",
    "element"};
static_assert(std::size(kSymbolOpWords) == exec::kLastSymbolOp + 1);
// Symbols that it reads.
constexpr int operands_of(exec::SymbolOp op) {
  using enum exec::SymbolOp;
  switch (op) {
    case None: case Const: case InputDim: case InputElement: case FConst: return 0;
    case Not: case ToDouble: case FFloor: case FCeil: case FRint: case FTrunc: case FSqrt: case FRoundF32: return 1;
    case Add: case Sub: case Mul: case FloorDiv: case CeilDiv: case Mod: case Min: case Max: case Eq: case Ne: case Lt:
    case Le: case And: case Or: case FAdd: case FSub: case FMul: case FDiv: case FMin: case FMax: case FLt: case FLe: return 2;
    case Select: return 3;
  }
  return 0;
}

}  // namespace mlc::plan
