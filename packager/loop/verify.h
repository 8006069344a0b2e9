// The rules of the Loop level, checked after lowering and before an emitter sees a kernel: variables are bound before
// use and visible, types agree, vectors have a power of two of lanes (at most 64), every operation is one that Loop
// allows, only `scalars` occur as symbols, stores go to written parameters or locals, locals have constant sizes.
// Kernels for devices have two outer loops and nothing beside, no cuts, vectors of at most four elements, local arrays of
// constant size in the memory of a block or a lane, and barriers where all lanes of a block come: under no condition that depends
// on the lane, or on what lanes wrote.
// That addresses are in range is the duty of lowering; tests check it with the interpreter, which checks every access.
#pragma once

#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::loop {

constexpr unsigned kMaxLanes = 64;
constexpr int64_t kMaxLocalElements = int64_t{1} << 24;

// OK, or Code::Internal with the first violation: a kernel that fails is a bug of a pass.
Status verify(const Kernel& kernel);

}  // namespace mlc::loop
