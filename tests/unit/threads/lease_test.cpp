// Runs of several sessions share the threads of one pool.
#include <doctest/doctest.h>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <functional>
#include <atomic>
#include <barrier>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/on_exit.h"
#include "tests/unit/threads/gathered.h"

using namespace mlc;
using test::Gathered;
using test::pool_of;

namespace {

std::set<pthread_t> threads_of(Team& team) {
  struct State {
    std::mutex mu;
    std::set<pthread_t> threads;
  } state;
  team.run(
      [](void* c, unsigned) {
        State& s = *static_cast<State*>(c);
        const std::lock_guard lock(s.mu);
        s.threads.insert(pthread_self());
      },
      &state);
  return state.threads;
}

void wait_for_waiting(WorkerPool& pool, unsigned count) {
  while (pool.waiting() != count) sched_yield();
}

// A run in a thread of its own, which waits for its workers if it has to.
class Run {
 public:
  Run(WorkerPool& pool, unsigned workers, std::function<void()> with_workers = [] {}, WorkLimits limits = {})
      : team_({pool, workers}) {
    meter_.start(limits, &cancelled_);
    thread_ = std::thread([this, with_workers] {
      team_.start_run();
      code = team_.gather(meter_).code;
      if (code == Code::Ok) with_workers();
      team_.end_run();
    });
  }
  void cancel() { cancelled_.set(); }
  Code end() {
    thread_.join();
    return code;
  }
  WorkMeter::Stop why() const { return meter_.why(); }

 private:
  Code code = Code::Internal;
  CancelFlag cancelled_;
  WorkMeter meter_;
  Team team_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("runs that go on at the same time have no thread in common") {
  const auto pool = pool_of(6);
  Gathered first({*pool, 2}), second({*pool, 3});
  const std::set<pthread_t> a = threads_of(*first), b = threads_of(*second);
  CHECK(a.size() == 2);
  CHECK(b.size() == 3);
  std::vector<pthread_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  CHECK(common == std::vector<pthread_t>{pthread_self()});  // this thread calls both
}

TEST_CASE("threads are started when a run first needs them, and kept") {
  const auto pool = pool_of(8);
  CHECK(pool->threads() == 0);
  { Gathered alone({*pool, 1}); }
  CHECK(pool->threads() == 0);
  { Gathered three({*pool, 3}); }
  CHECK(pool->threads() == 2);
  { Gathered two({*pool, 2}); }
  CHECK(pool->threads() == 2);
  { Gathered more_than_there_are({*pool, 9}); }
  CHECK(pool->threads() == 7);
  {
    Gathered two({*pool, 2}), six({*pool, 6});
  }
  CHECK(pool->threads() == 7);
}

TEST_CASE("runs are served in the order in which they came") {
  const auto pool = pool_of(2);
  std::vector<unsigned> order;  // guarded by having the workers
  std::vector<std::unique_ptr<Run>> runs;
  {
    Gathered all(*pool);
    for (unsigned i = 0; i < 6; ++i) {
      runs.push_back(std::make_unique<Run>(*pool, 2, [&order, i] { order.push_back(i); }));
      wait_for_waiting(*pool, i + 1);
    }
  }
  for (auto& run : runs) CHECK(run->end() == Code::Ok);
  CHECK(order == std::vector<unsigned>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a run has all its workers or none, and nobody overtakes one that waits for many") {
  const auto pool = pool_of(4);
  std::vector<std::string> order;
  auto two = std::make_unique<Gathered>(TeamOptions{*pool, 2});
  Run four(*pool, 4, [&] { order.push_back("four"); });
  wait_for_waiting(*pool, 1);
  Run three(*pool, 3, [&] { order.push_back("three"); });  // fits now, but came later
  wait_for_waiting(*pool, 2);
  Run another(*pool, 2, [&] { order.push_back("two"); });
  wait_for_waiting(*pool, 3);
  CHECK(order.empty());
  two.reset();
  CHECK(four.end() == Code::Ok);
  CHECK(three.end() == Code::Ok);
  CHECK(another.end() == Code::Ok);
  CHECK(order == std::vector<std::string>{"four", "three", "two"});
}

TEST_CASE("a run of one worker waits for nobody") {
  const auto pool = pool_of(2);
  Gathered all(*pool);
  Run waits(*pool, 2);
  wait_for_waiting(*pool, 1);
  Gathered alone({*pool, 1});
  waits.cancel();
  CHECK(waits.end() == Code::Cancelled);
}

TEST_CASE("a cancelled run stops waiting, and those behind it are served") {
  const auto pool = pool_of(4);
  Gathered two({*pool, 2});
  Run four(*pool, 4);
  wait_for_waiting(*pool, 1);
  Run another(*pool, 2);
  wait_for_waiting(*pool, 2);
  four.cancel();
  CHECK(four.end() == Code::Cancelled);
  CHECK(another.end() == Code::Ok);  // although `two` still has its workers
  CHECK(pool->waiting() == 0);
}

TEST_CASE("a run's time goes on while it waits") {
  const auto pool = pool_of(2);
  Gathered all(*pool);
  for (const uint64_t ns : {uint64_t{1}, uint64_t{3'000'000}}) {
    Run late(*pool, 2, [] {}, {.time_ns = ns});
    CHECK(late.end() == Code::Cancelled);  // nothing else ends it: `all` stays
    CHECK(late.why() == WorkMeter::Stop::Time);
  }
}

TEST_CASE("a run that was cancelled before it waits does not wait") {
  const auto pool = pool_of(2);
  Gathered all(*pool);
  WorkMeter meter;
  CancelFlag cancelled;
  cancelled.set();
  meter.start({}, &cancelled);
  Team team(*pool);
  CHECK(team.gather(meter).code == Code::Cancelled);
  CHECK(pool->waiting() == 0);
}

TEST_CASE("threads that cannot be started are told, and what was borrowed is given back") {
  const auto pool = pool_of(3);
  pthread_attr_t before, huge;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t{1} << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  WorkMeter meter;
  Team team(*pool);
  const Status status = team.gather(meter);
  REQUIRE(pthread_setattr_default_np(&before) == 0);
  CHECK(status.code == Code::Resource);
  CHECK(status.message.find("could not be started") != std::string::npos);
  CHECK(pool->threads() == 0);
  Gathered all(*pool);
  CHECK(threads_of(*all).size() == 3);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&huge);
}

TEST_CASE("many threads with teams of all sizes never have more workers than there are, and all get theirs") {
  constexpr int kThreads = 8, kRounds = 150;
  const auto pool = pool_of(4);
  std::atomic<int> working{0}, most{0}, jobs{0}, lost{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Team team({*pool, 2 + static_cast<unsigned>(t) % 3});
      WorkMeter meter;
      struct State {
        std::barrier<> meeting;
        std::atomic<int>& working;
        std::atomic<int>& most;
        std::atomic<int> calls{0};
      } state{std::barrier<>(team.workers()), working, most};
      for (int round = 1; round <= kRounds; ++round) {
        team.start_run();
        if (!team.gather(meter).ok()) ++lost;
        for (int job = 0; job < 2; ++job)
          team.run(
              [](void* c, unsigned) {
                State& s = *static_cast<State*>(c);
                const int now = ++s.working;
                for (int seen = s.most; seen < now && !s.most.compare_exchange_weak(seen, now);) {}
                s.meeting.arrive_and_wait();
                --s.working;
                ++s.calls;
              },
              &state);
        team.end_run();
        if (state.calls != 2 * round * static_cast<int>(team.workers())) ++lost;
        ++jobs;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(most <= 4);
  CHECK(lost == 0);
  CHECK(jobs == kThreads * kRounds);
  CHECK(pool->threads() <= 3);
  CHECK(pool->waiting() == 0);
}

TEST_CASE("the pool of the process is one for all who join, and ends with the last") {
  auto first = WorkerPool::join_common({.workers = 3}).value();
  auto second = WorkerPool::join_common({.workers = 5}).value();  // too late for wishes
  CHECK(first.get() == second.get());
  CHECK(second->workers() == 3);
  { Gathered all(*first); }
  first.reset();
  CHECK(second->threads() == 2);
  second.reset();
  CHECK(WorkerPool::join_common({.workers = 5}).value()->workers() == 5);
}

TEST_CASE("a run that waits gets its workers although another session never pauses") {
  const auto pool = pool_of(2);
  std::atomic<bool> end{false};
  std::thread hog([&] {
    Team team(*pool);
    WorkMeter meter;
    while (!end) {
      meter.start({});  // runs so short that they may be repeated before one that waits
      team.start_run();
      CHECK(team.gather(meter).ok());
      team.run([](void*, unsigned) {}, nullptr);
      team.end_run();
    }
  });
  while (pool->threads() == 0) sched_yield();
  for (int round = 0; round < 3; ++round) Gathered all(*pool);
  end = true;
  hog.join();
}

TEST_CASE("workers stay on their CPUs for teams of all that pin their callers, and are free for others") {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mine)) cpus.push_back(cpu);
  if (cpus.size() < 2) return;
  // How many CPUs each worker of a team may use. A thread that something else pushed off its CPU leaves it for a while, where
  // pinning was not asked for: then nothing is known of any of them.
  bool was_pushed_off = false;
  const auto choices = [&](const TeamOptions& options) {
    std::vector<int> counts(options.workers);
    Gathered team(options);
    const OnExit look([&] { was_pushed_off = team->pushed_off_ns() != 0; });
    team->run(
        [](void* c, unsigned w) {
          cpu_set_t set;
          CPU_ZERO(&set);
          sched_getaffinity(0, sizeof set, &set);
          (*static_cast<std::vector<int>*>(c))[w] = CPU_COUNT(&set);
        },
        &counts);
    return counts;
  };
  const int all = static_cast<int>(cpus.size());
  for (const bool pin : {false, true}) {
    const auto pool = WorkerPool::create({.workers = 3, .cpus = cpus, .seats = {cpus[0], cpus[1], cpus[1]}, .pin = pin}).value();
    std::thread application([&] {  // with a thread of its own, which is pinned
      CHECK(choices({*pool, 3}) == std::vector<int>{all, pin ? 1 : all, pin ? 1 : all});
      const std::vector<int> pinned = choices({*pool, 3, true});
      if (pin || !was_pushed_off) CHECK(pinned == std::vector<int>{1, 1, 1});
      const std::vector<int> after = choices({*pool, 2});
      if (pin || !was_pushed_off) CHECK(after == std::vector<int>{1, pin ? 1 : all});
    });
    application.join();
  }
}

TEST_CASE("the first threads stay on the near CPUs, later ones may go to all") {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mine)) cpus.push_back(cpu);
  if (cpus.size() < 2) return;
  const auto pool = WorkerPool::create({.workers = 4, .cpus = cpus, .near_workers = 2, .near_cpus = {cpus[1]}}).value();
  std::vector<cpu_set_t> sets(4);
  Gathered team({*pool, 4});
  team->run(
      [](void* c, unsigned w) {
        cpu_set_t& set = (*static_cast<std::vector<cpu_set_t>*>(c))[w];
        CPU_ZERO(&set);
        sched_getaffinity(0, sizeof set, &set);
      },
      &sets);
  CHECK(CPU_EQUAL(&sets[0], &mine));  // the caller is not the pool's
  CHECK(CPU_COUNT(&sets[1]) == 1);
  CHECK(CPU_ISSET(cpus[1], &sets[1]));
  CHECK(CPU_EQUAL(&sets[2], &mine));
  CHECK(CPU_EQUAL(&sets[3], &mine));
}
