// Stack that kernels find when they are called.
#pragma once

namespace mlc::elf {

// Windows makes a thread's stack grow page by page, each when the one before it has been touched. Frames of kernels have up to 4096 bytes
// and touch them in any order, so their pages are touched before. On other systems all of a stack is there: nothing is done.
void touch_kernel_stack();

}  // namespace mlc::elf
