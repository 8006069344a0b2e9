// The text form of kernels; tests read it back (tests/text). Variables and shared nodes are numbered in order of appearance,
// floating-point constants are written in hexadecimal.
//
//   kernel "relu" tiles (ceildiv ..) range %0 %1 {
//     param "x" f32 array 0
//     param "y" f32 out array 1
//     scalar "N"
//     local "tmp" f32 64
//     for %2 = %0 .. %1 step 1 {
//       let %3.f32x16 = (load.f32x16 0 %2)
//       store 1 [%2] (max.f32x16 %3 (splat.f32x16 f32:0x0p+0))
//     }
//   }
// A loop that is written "rolled" instead of "for" is not to be unrolled further.
// An expression is prefix; the type is written behind the operation unless it is a scalar i64. A node that occurs twice
// in one statement is written once as #n=(..) and then as #n.
#pragma once

#include <string>

#include "packager/loop/loop.h"

namespace mlc::loop {

std::string to_string(const Kernel& kernel);

}  // namespace mlc::loop
