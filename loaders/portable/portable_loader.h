// The loader of portable code, which needs nothing of the host: no executable memory, no particular machine.
#pragma once

#include <memory>

#include "runtime/loader.h"

namespace mlc::portable {

std::unique_ptr<Loader> make_portable_loader();

}  // namespace mlc::portable
