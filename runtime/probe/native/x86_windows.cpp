#include <cerrno>

#include "runtime/probe/native/native.h"

namespace mlc::probe::native {

// Windows has calls for this, which nothing here has been tried with: variants with AMX are not chosen.
CallResult xcomp_supported() { return {0, ENOSYS}; }
int request_amx() { return ENOSYS; }

}  // namespace mlc::probe::native
