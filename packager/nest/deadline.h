// When an interpretation gives up.
#pragma once

#include <chrono>

namespace mlc::nest {

using Deadline = std::chrono::steady_clock::time_point;  // max(): never

inline bool has_passed(Deadline deadline) { return deadline != Deadline::max() && std::chrono::steady_clock::now() >= deadline; }

}  // namespace mlc::nest
