#include <pthread.h>

#include "runtime/threads/forks.h"

namespace mlc {

int watch_forks(void (*before)(), void (*here)(), void (*there)()) { return pthread_atfork(before, here, there); }

}  // namespace mlc
