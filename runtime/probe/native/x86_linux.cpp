#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/probe/native/native.h"

namespace mlc::probe::native {

CallResult xcomp_supported() {
  uint64_t mask = 0;
  if (syscall(SYS_arch_prctl, 0x1021, &mask) != 0) return {0, errno};
  return {static_cast<int64_t>(mask), 0};
}

int request_amx() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? 0 : errno; }

}  // namespace mlc::probe::native
