#include "loaders/elf/kernel_stack.h"

#include <cstddef>

namespace mlc::elf {

// The compiler touches each page of a frame as large as this one when it makes it.
__attribute__((noinline)) void touch_kernel_stack() {
  std::byte room[64 << 10];
  __asm__ volatile("" : : "r"(room) : "memory");  // as if it were used
}

}  // namespace mlc::elf
