// Only the matcher makes the token that loaders take.
#include "runtime/compatible.h"

void use(mlc::Compatible token);

void attempt(mlc::Compatible mine) {
#ifdef WRONG
  use(mlc::Compatible(0, "mine", mlc::HostFacts{}));
#else
  use(static_cast<mlc::Compatible&&>(mine));
#endif
}
