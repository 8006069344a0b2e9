#include "loaders/elf/kernel_stack.h"

namespace mlc::elf {

void touch_kernel_stack() {}

}  // namespace mlc::elf
