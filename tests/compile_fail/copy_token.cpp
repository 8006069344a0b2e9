// One match admits one load: the token cannot be copied.
#include "runtime/compatible.h"

void use(mlc::Compatible token);

void attempt(mlc::Compatible mine) {
#ifdef WRONG
  use(mine);
#endif
  use(static_cast<mlc::Compatible&&>(mine));
}
