// A Status that nobody looks at does not compile (with the warning as an error).
#include "base/status.h"

mlc::Status fallible();

void attempt() {
#ifdef WRONG
  fallible();
#else
  (void)fallible();
#endif
}
