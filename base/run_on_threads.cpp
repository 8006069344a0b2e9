#include "base/run_on_threads.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace mlc {
namespace {

void* run(void* work) {
  (*static_cast<const std::function<void()>*>(work))();
  return nullptr;
}

}  // namespace

unsigned number_of_threads(unsigned wanted) {
  static const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  return wanted ? wanted : processors;
}

// Not std::thread, which throws where there is no memory for a stack.
void run_on_threads(unsigned threads, const std::function<void()>& work) {
  std::vector<pthread_t> others;
  others.reserve(threads);
  for (unsigned k = 1; k < threads; ++k) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, run, const_cast<std::function<void()>*>(&work)) != 0) break;
    others.push_back(thread);
  }
  work();
  for (pthread_t thread : others) pthread_join(thread, nullptr);
}

}  // namespace mlc
