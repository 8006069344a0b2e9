// Work that several threads share: each runs the same function, which takes piece after piece until none is left.
#pragma once

#include <functional>

namespace mlc {

// `wanted`, or for 0 as many as there are processors that this process may use: asked of the system once.
unsigned number_of_threads(unsigned wanted);

// Runs `work` on the calling thread and on up to `threads` - 1 others, and returns when all have returned. Threads that the
// machine does not give are done without, so `work` must not count on their number.
void run_on_threads(unsigned threads, const std::function<void()>& work);

}  // namespace mlc
