#include "runtime/threads/forks.h"

namespace mlc {

int watch_forks(void (*)(), void (*)(), void (*)()) { return 0; }

}  // namespace mlc
