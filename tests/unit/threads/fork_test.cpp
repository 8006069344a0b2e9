// A process that forks while its pools are in use.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/sanitized.h"
#include "tests/unit/threads/gathered.h"

using namespace mlc;
using test::Gathered;
using test::pool_of;

// Else it ends every child of a process with threads. Of the C library, what children do here is fine.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace {

// The allocator of AddressSanitizer keeps its locks over a fork: a child that starts threads may wait for ever for one that another
// thread, even one that just starts, had at that moment.
#ifdef MLC_ADDRESS_SANITIZER
constexpr bool kAllocatorForks = false;
#else
constexpr bool kAllocatorForks = true;
#endif

// What the child answers: 0 if all workers ran.
int use(WorkerPool& pool) {
  Team team(pool);
  WorkMeter meter;
  team.start_run();
  if (!team.gather(meter).ok()) return 1;
  std::atomic<unsigned> calls{0};
  for (int job = 0; job < 3; ++job) team.run([](void* c, unsigned) { ++*static_cast<std::atomic<unsigned>*>(c); }, &calls);
  team.end_run();
  return calls == 3 * pool.workers() && pool.threads() == pool.workers() - 1 && pool.crowd().working == 0 ? 0 : 2;
}

int exit_code_of(pid_t child) {
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

}  // namespace

TEST_CASE("a pool works in the child of a fork, whatever other threads did with it at that moment" * doctest::skip(!kAllocatorForks)) {
  const auto pool = pool_of(3);
  const auto common = WorkerPool::join_common({.workers = 2}).value();
  CHECK(use(*pool) == 0);
  std::atomic<bool> end{false};
  std::thread busy([&] {
    while (!end) {
      use(*pool);
      use(*WorkerPool::join_common({.workers = 2}).value());
    }
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(use(*pool) * 10 + use(*common));
    REQUIRE(child > 0);
    CHECK(exit_code_of(child) == 0);
  }
  end = true;
  busy.join();
  CHECK(use(*pool) == 0);
}

TEST_CASE("what was borrowed at the fork is free in the child, where pools can be made and ended as before" * doctest::skip(!kAllocatorForks)) {
  const auto pool = pool_of(2);
  Gathered all(*pool);
  const pid_t child = fork();
  if (child == 0) {
    auto another = pool_of(4);
    const int code = use(*pool) + use(*another);
    another.reset();
    _exit(code);
  }
  REQUIRE(child > 0);
  CHECK(exit_code_of(child) == 0);
}
