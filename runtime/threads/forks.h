// Copies of this process that have one thread.
#pragma once

namespace mlc {

// Each is called around every fork of this process from now on: before it, after it here, after it there. errno, or 0; on systems
// without fork nothing is to be done.
[[nodiscard]] int watch_forks(void (*before)(), void (*here)(), void (*there)());

}  // namespace mlc
