#include "runtime/plan/execute/ranges.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

using namespace mlc;
using namespace mlc::exec;

namespace {

// Random instructions, and what was done of them.
struct Log {
  std::vector<Turn> turns;
  unsigned count;
  std::vector<std::atomic<uint32_t>> runs;  // per instruction, then range
  std::vector<std::atomic<uint32_t>> left;  // parts of each instruction that are not done
  std::atomic<int> wrong{0};

  Log(std::mt19937& random, size_t length, unsigned ranges) : turns(length), count(ranges), runs(length * ranges), left(length) {
    for (uint32_t i = 0; i < length; ++i) {
      turns[i].after = random() % 3 == 0 ? i : static_cast<uint32_t>(random() % (i + 1));
      turns[i].shares = static_cast<uint32_t>(1 + random() % ranges);
      left[i] = turns[i].shares;
    }
  }
  void execute(uint32_t range, uint32_t step) {
    ++runs[step * count + range];
    if (range >= turns[step].shares) ++wrong;
    for (uint32_t i = 0; i < turns[step].after; ++i)
      if (left[i] != 0) ++wrong;
    for (uint32_t i = 0; i < step; ++i)
      if (range < turns[i].shares && runs[i * count + range] != 1) ++wrong;
    --left[step];
  }
  bool complete() {
    for (size_t i = 0; i < turns.size(); ++i)
      for (unsigned r = 0; r < count; ++r)
        if (runs[i * count + r] != (r < turns[i].shares ? 1u : 0u)) return false;
    return wrong == 0;
  }
};

}  // namespace

TEST_CASE("every part is done once, after what it waits for, by any number of the threads") {
  std::mt19937 random(7);
  for (unsigned count : {1u, 2u, 3u, 7u})
    for (unsigned threads = 1; threads <= count; threads += 2) {
      Crowd crowd(2);
      Ranges ranges(count);
      for (int round = 0; round < 30; ++round) {
        Log log(random, 60, count);
        ranges.start(log.turns, crowd);
        const auto work = [&](unsigned own, unsigned seed) {
          std::minstd_rand pauses(seed);
          Ranges::Thread t{.own = own};
          while (ranges.next(t)) {
            if (round % 10 == 0 && pauses() % 16 == 0) usleep(200);  // the others fall asleep
            log.execute(t.range, t.step);
          }
        };
        std::vector<std::thread> others;
        // Not always the first ones: a range whose thread never comes is done by others.
        for (unsigned k = 1; k < threads; ++k) others.emplace_back(work, count - k, static_cast<unsigned>(random()));
        work(0, 1);
        for (std::thread& t : others) t.join();
        CHECK(log.complete());
      }
    }
}

TEST_CASE("any order that a test chooses is a legal one") {
  std::mt19937 random(3);
  for (unsigned count : {1u, 2u, 5u}) {
    Crowd crowd(2);
    Ranges ranges(count);
    for (int round = 0; round < 50; ++round) {
      Log log(random, 40, count);
      ranges.start(log.turns, crowd);
      ranges.in_order([&](size_t n) { return random() % n; }, [&](uint32_t range, uint32_t step) {
        log.execute(range, step);
        return true;
      });
      CHECK(log.complete());
    }
  }
}

TEST_CASE("a run that is halted ends for all threads, those asleep included") {
  const std::vector<Turn> turns{{0, 3}, {1, 3}, {2, 3}};
  Crowd crowd(4);
  Ranges ranges(3);
  ranges.start(turns, crowd);
  std::atomic<int> parts{0};
  std::vector<std::thread> threads;
  for (uint32_t own = 0; own < 3; ++own)
    threads.emplace_back([&, own] {
      Ranges::Thread t{.own = own};
      while (ranges.next(t)) {
        if (++parts < 3) continue;
        usleep(2000);
        ranges.halt();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(parts == 3);
}

TEST_CASE("threads of a team leave while there is nothing for them, and come back") {
  std::mt19937 random(5);
  const auto pool = WorkerPool::create({.workers = 4}).value();
  Team team(*pool);
  WorkMeter meter;
  team.start_run();
  REQUIRE(team.gather(meter).ok());
  Ranges ranges(4);
  for (int round = 0; round < 20; ++round) {
    struct Job {
      Ranges& ranges;
      Log log;
      std::atomic<int> came{0};
    } job{ranges, Log(random, 40, 4)};
    ranges.start(job.log.turns, team.crowd(), &team);
    team.offer(
        [](void* context, unsigned worker) {
          Job& j = *static_cast<Job*>(context);
          Ranges::Thread t{.own = worker};
          ++j.came;
          j.ranges.come(t);
          while (j.ranges.next(t)) {
            if (t.step % 4 == 0) usleep(300);  // longer than anybody spins
            j.log.execute(t.range, t.step);
          }
        },
        &job);
    CHECK(job.log.complete());
  }
  team.end_run();
}
