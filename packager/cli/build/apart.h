// Work that may crash, in a process of its own.
#pragma once

#include <functional>

#include "base/status.h"

namespace mlc::cli {

// Runs `work` in a copy of this process and waits for its answer. Changes that `work` makes to memory are lost. A signal that
// ends it, or an end without an answer, is a status of code SelfTest; that memory is used up is one of code Resource. The copy
// ends with this process. No other thread may hold a lock that `work` takes.
Status run_apart(const std::function<Status()>& work);

}  // namespace mlc::cli
