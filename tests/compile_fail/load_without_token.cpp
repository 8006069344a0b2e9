// A loader takes a token and verified bytes, and nothing less.
#include "runtime/loader.h"

void attempt(const mlc::Loader& loader, mlc::Compatible token, mlc::VerifiedBytes bytes) {
#ifdef WRONG
  (void)loader.load(static_cast<mlc::VerifiedBytes&&>(bytes));
  (void)token;
#else
  (void)loader.load(static_cast<mlc::Compatible&&>(token), static_cast<mlc::VerifiedBytes&&>(bytes));
#endif
}
