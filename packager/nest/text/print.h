// Text form of a Nest function. Tests read it back (tests/text), and printing that gives the same text.
//
//   function "net"
//   sym $N 1 4096 multiple 1
//   dim n = 64
//   combiner softsum (#0: f32, #1: f32) (#2: f32, #3: f32) unit (-inf, 0.0) join (..., ...) commutative
//   array %0 "x" input f32 [1, $N]
//   array %1 "w" const f32 [64, 64] layout [1/16][0][1%16] data 16384 4f2c...   ; small ones: hex "0000803f..."
//   inputs %0   outputs %2
//   check $N <= 512 "too long"
//   define $M = $N / 2                    ; a symbol that stands for an expression
//   nest "Conv_12 (Conv)" (n, m) where n < 3 scan m by sum exclusive reverse joins {
//     let @0 = ...                        ; expressions that occur more than once
//     write %2[n, m] = max(@0, 0.0)
//     push %3[n] = @0 by last
//   }
//   proc "TopK_3 (TopK)" (n) reads %0 writes %2 {
//     alloc %16777216 "live" bool [64]
//     for #4 in 0 to 64 step 1 { if %0[n, #4] > 0.0 { store %2[n, #4] = 1.0 } }
//     yield $K = #5
//   }
//   array %3 "seq" temp f32 [] list 1     ; a list of arrays
//   element $S = %4 0                     ; a symbol that is an element of an input
//   control loop "Loop_4 (Loop)" reads %5 none %0 %1 writes %6 carried 1 { function "body" ... }
//   control list_concat "C_5 (ConcatFromSequence)" reads %3 writes %7 axis 1 new
//   control host "D_7 (ImageDecoder)" reads %0 writes %9 service "image.decode" "RGB"
//   control read "R_6 (Reshape)" reads %8 writes $"R_6.shape[0]"
#pragma once

#include <string>
#include <string_view>

#include "packager/nest/nest.h"

namespace mlc::nest {

std::string print(const Function& f);
// Nests and procs alone, with the dims and arrays that stand in them: for people.
std::string print_statements(const Function& f, size_t first, size_t count);
// Of constants above 256 bytes, which are printed as size and hash: 64-bit FNV-1a over words, not cryptographic.
std::string hash_text(Bytes bytes);

}  // namespace mlc::nest
