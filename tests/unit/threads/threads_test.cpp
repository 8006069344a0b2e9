#include <doctest/doctest.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <barrier>

#include "tests/unit/threads/gathered.h"

using namespace mlc;
using test::Gathered;
using test::pool_of;

TEST_CASE("every worker runs the job once per run, and run returns after all of them") {
  for (unsigned n : {1u, 2u, 3u, 7u}) {
    const auto pool = pool_of(n);
    Gathered team(*pool);
    std::array<std::atomic<int>, 8> calls{};
    for (int round = 1; round <= 200; ++round) {
      team->run([](void* c, unsigned w) { ++(*static_cast<std::array<std::atomic<int>, 8>*>(c))[w]; }, &calls);
      for (unsigned w = 0; w < 8; ++w) CHECK(calls[w].load() == (w < n ? round : 0));
    }
  }
}

TEST_CASE("workers that fell asleep wake up again") {
  const auto pool = pool_of(3);
  Gathered team(*pool);
  std::atomic<int> calls{0};
  for (int round = 0; round < 5; ++round) {
    usleep(3000);  // far beyond the spinning
    team->run(
        [](void* c, unsigned w) {
          if (w == 0) usleep(2000);  // the others sleep at the end meanwhile
          ++*static_cast<std::atomic<int>*>(c);
        },
        &calls);
  }
  CHECK(calls == 15);
}

TEST_CASE("where those who work outnumber the CPUs, workers meet all the same") {
  const auto pool = pool_of(3);
  Gathered team(*pool);
  Team singles[] = {Team({*pool, 1}), Team({*pool, 1}), Team({*pool, 1})};
  for (Team& single : singles) single.start_run();
  CHECK(!pool->crowd().fits());
  std::atomic<int> calls{0};
  for (int round = 1; round <= 200; ++round) {
    struct State {
      std::barrier<> meeting;
      std::atomic<int>& calls;
    } state{std::barrier<>(3), calls};
    team->run(
        [](void* c, unsigned) {
          State& s = *static_cast<State*>(c);
          ++s.calls;
          s.meeting.arrive_and_wait();
        },
        &state);
    CHECK(calls == 3 * round);
  }
  for (Team& single : singles) single.end_run();
  CHECK(pool->crowd().fits());
}

TEST_CASE("CPUs that do not exist only lose the pinning; a senseless number of workers is refused") {
  PoolOptions o{.workers = 2, .cpus = {1 << 20, -3}, .seats = {1 << 20, -3}, .pin = true};
  const auto pool = WorkerPool::create(o).value();
  Gathered team({*pool, 0, /*pin_caller=*/true});
  std::atomic<int> calls{0};
  team->run([](void* c, unsigned) { ++*static_cast<std::atomic<int>*>(c); }, &calls);
  CHECK(calls == 2);
  for (unsigned senseless : {0u, 4097u, 1u << 30}) {
    o.workers = senseless;
    CHECK(WorkerPool::create(o).status().code == Code::Usage);
  }
}

TEST_CASE("a pool that never ran a job ends") {
  for (int i = 0; i < 20; ++i) {
    const auto idle = pool_of(4);
    const auto gathered = pool_of(4);
    Gathered team(*gathered);
  }
}

namespace {

std::atomic<bool> stuck{false}, let_go{false};

// As if the system had given the thread's CPU away.
void get_stuck(int) {
  stuck = true;
  while (!let_go) usleep(100);
}

struct Offered {
  Team& team;
  std::array<std::atomic<int>, 2> calls{};
  std::atomic<int> enough{0};  // of worker 1, for worker 0 to return
};
void offered(void* c, unsigned w) {
  auto& o = *static_cast<Offered*>(c);
  ++o.calls[w];
  while (w == 0 && o.calls[1] < o.enough) o.team.call_back();
}

}  // namespace

TEST_CASE("an offered job does not wait for a thread that cannot come, and calls back those that can") {
  const auto pool = pool_of(2);
  Gathered team(*pool);
  pthread_t thread{};
  team->run([](void* c, unsigned w) { if (w == 1) *static_cast<pthread_t*>(c) = pthread_self(); }, &thread);
  struct sigaction act = {}, before;
  act.sa_handler = get_stuck;
  sigaction(SIGUSR1, &act, &before);
  for (int round = 0; round < 20; ++round) {
    stuck = let_go = false;
    pthread_kill(thread, SIGUSR1);
    while (!stuck) usleep(10);
    Offered alone{*team};
    for (int k = 0; k < 3; ++k) team->offer(offered, &alone);
    CHECK(alone.calls[0] == 3);
    CHECK(alone.calls[1] == 0);
    let_go = true;
    Offered both{*team};
    both.enough = 3;
    team->offer(offered, &both);
    CHECK(both.calls[0] == 1);
    CHECK(both.calls[1] >= 3);
    std::array<std::atomic<int>, 2> calls{};
    team->run([](void* c, unsigned w) { ++(*static_cast<std::array<std::atomic<int>, 2>*>(c))[w]; }, &calls);
    CHECK(calls[0] == 1);
    CHECK(calls[1] == 1);
  }
  sigaction(SIGUSR1, &before, nullptr);
}
