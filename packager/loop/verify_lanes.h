// The rules of kernels for devices beside those of all: their two outer loops, the memories of a block, barriers.
#pragma once

#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::loop {

constexpr unsigned kMaxDeviceVector = 4;

// A kernel whose statements are well formed (verify.h). Says of one for processors that it has nothing of these.
Status verify_lanes(const Kernel& kernel);

}  // namespace mlc::loop
