// A Result of the wrapper that nobody looks at does not compile (with the warning as an error).
#include "runtime/api/mlc.hpp"

void attempt(mlrt::Session& session) {
#ifdef WRONG
  session.state_reset();
#else
  (void)session.state_reset();
#endif
}
