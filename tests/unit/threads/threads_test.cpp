#include <doctest/doctest.h>

#include <unistd.h>

#include <array>

#include "runtime/threads/worker_pool.h"

using namespace mlc;

namespace {

std::unique_ptr<WorkerPool> pool_of(unsigned workers, std::vector<int> cpus = {}) {
  PoolOptions o;
  o.workers = workers;
  o.cpus = std::move(cpus);
  return WorkerPool::create(o).value();
}

}  // namespace

TEST_CASE("every worker runs the job once per run, and run returns after all of them") {
  for (unsigned n : {1u, 2u, 3u, 7u}) {
    auto pool = pool_of(n);
    std::array<std::atomic<int>, 8> calls{};
    for (int round = 1; round <= 200; ++round) {
      pool->run([](void* c, unsigned w) { ++(*static_cast<std::array<std::atomic<int>, 8>*>(c))[w]; }, &calls);
      for (unsigned w = 0; w < 8; ++w) CHECK(calls[w].load() == (w < n ? round : 0));
    }
  }
}

TEST_CASE("after a barrier each worker sees what the others wrote before it, more workers than CPUs included") {
  for (unsigned n : {2u, 5u}) {
    struct State {
      WorkerPool* pool;
      unsigned n;
      std::array<int, 8> value{};  // not atomic: the barrier orders the accesses
      std::atomic<int> wrong{0};
    } state;
    auto pool = pool_of(n);
    state.pool = pool.get();
    state.n = n;
    pool->run(
        [](void* c, unsigned w) {
          State& s = *static_cast<State*>(c);
          for (int round = 1; round <= 300; ++round) {
            s.value[w] = round;
            s.pool->barrier().wait();
            for (unsigned other = 0; other < s.n; ++other)
              if (s.value[other] != round) ++s.wrong;
            s.pool->barrier().wait();
          }
        },
        &state);
    CHECK(state.wrong == 0);
  }
}

TEST_CASE("workers that fell asleep wake up again") {
  auto pool = pool_of(3);
  std::atomic<int> calls{0};
  for (int round = 0; round < 5; ++round) {
    usleep(3000);  // far beyond the spinning
    pool->run(
        [](void* c, unsigned w) {
          if (w == 0) usleep(2000);  // the others sleep at the barrier meanwhile
          ++*static_cast<std::atomic<int>*>(c);
        },
        &calls);
  }
  CHECK(calls == 15);
}

TEST_CASE("CPUs that do not exist only lose the pinning; a senseless number of workers is refused") {
  auto pool = pool_of(2, {1 << 20, -3});
  std::atomic<int> calls{0};
  pool->run([](void* c, unsigned) { ++*static_cast<std::atomic<int>*>(c); }, &calls);
  CHECK(calls == 2);
  PoolOptions none;
  none.workers = 0;
  CHECK(!WorkerPool::create(none));
  none.workers = 1u << 30;
  CHECK(!WorkerPool::create(none));
}

TEST_CASE("a pool that never ran a job ends") {
  for (int i = 0; i < 20; ++i) pool_of(4);
}
