// One thread or all: what follows from the times of runs.
#include <doctest/doctest.h>

#include <initializer_list>

#include "runtime/plan/execute/pace.h"

using mlc::exec::Pace;

namespace {

constexpr uint64_t kMs = 1'000'000;

// A machine on which a run takes so long with all threads and with one, and on which threads are pushed off or not.
struct Machine {
  uint64_t together = 0, alone = 0;
  bool is_busy = false;
};

// Runs for so long; the time that the runs took with one thread.
uint64_t run_for(Pace& pace, uint64_t& now, uint64_t time, const Machine& machine) {
  uint64_t with_one = 0, pushed_off = 0;
  for (const uint64_t end = now + time; now < end;) {
    const bool alone = pace.is_alone();
    const uint64_t took = alone ? machine.alone : machine.together;
    if (machine.is_busy && !alone) pushed_off = now + took / 2;
    pace.ran(now, now + took, pushed_off);
    now += took;
    with_one += alone ? took : 0;
  }
  return with_one;
}

}  // namespace

TEST_CASE("nothing is tried where no thread is pushed off") {
  Pace pace;
  uint64_t now = kMs;
  CHECK(run_for(pace, now, 1000 * kMs, {5 * kMs, 1 * kMs, false}) == 0);
}

TEST_CASE("one thread stays where it is faster beside others, all where they are") {
  for (const uint64_t run : {kMs / 50, 1 * kMs, 40 * kMs}) {
    Pace pace;
    uint64_t now = kMs;
    const uint64_t time = 4000 * kMs + 100 * run;
    CHECK(run_for(pace, now, time, {run + run / 5, run, true}) > time * 7 / 10);
    CHECK(run_for(pace, now, time, {run, run + run / 5, true}) < time * 3 / 10);
  }
}

TEST_CASE("when the others are gone all threads are back soon, and stay") {
  Pace pace;
  uint64_t now = kMs;
  run_for(pace, now, 2000 * kMs, {15 * kMs, 10 * kMs, true});
  run_for(pace, now, 600 * kMs, {6 * kMs, 10 * kMs, false});
  CHECK(run_for(pace, now, 3000 * kMs, {6 * kMs, 10 * kMs, false}) == 0);
}

TEST_CASE("a trial is long enough to see several time slices, and has three runs of all threads at least") {
  Pace pace;
  pace.ran(10, 20, 0);
  const uint64_t now = 4000 * kMs;
  pace.ran(now + 10, now + 20, now + 15);  // pushed off
  CHECK_FALSE(pace.is_alone());
  for (uint64_t k = 1; k <= 3; ++k) {
    CHECK_FALSE(pace.is_alone());
    pace.ran(now + k * 40 * kMs, now + k * 40 * kMs + 30 * kMs, now + k * 40 * kMs + 1);
  }
  CHECK(pace.is_alone());
}

TEST_CASE("a thread that is pushed off now and then changes nothing") {
  Pace pace;
  uint64_t pushed_off = 0;
  for (uint64_t now = kMs, k = 0; k < 2000; ++k, now += 5 * kMs) {
    if (k % 10 == 0) pushed_off = now + kMs;
    pace.ran(now, now + 5 * kMs, pushed_off);
    CHECK_FALSE(pace.is_alone());
  }
}

TEST_CASE("long runs that are hardly disturbed are not tried with one thread") {
  Pace pace;
  uint64_t now = kMs;
  run_for(pace, now, 1000 * kMs, {450 * kMs, 900 * kMs, false});
  CHECK(run_for(pace, now, 100'000 * kMs, {460 * kMs, 900 * kMs, true}) == 0);
}

TEST_CASE("what trials take is little of long runs, where one thread is slower") {
  Pace pace;  // every run is disturbed, from the first one on
  uint64_t now = kMs;
  const uint64_t with_one = run_for(pace, now, 200'000 * kMs, {450 * kMs, 900 * kMs, true});
  CHECK(with_one > 0);
  CHECK(with_one <= 200'000 * kMs / 10);  // half of it would have passed anyway
}

TEST_CASE("what a trial found holds until the next one") {
  Pace pace;
  uint64_t now = kMs;
  run_for(pace, now, 1000 * kMs, {10 * kMs, 18 * kMs, false});
  run_for(pace, now, 3000 * kMs, {15 * kMs, 18 * kMs, true});
  CHECK(run_for(pace, now, 10'000 * kMs, {21 * kMs, 18 * kMs, true}) > 7000 * kMs);
}
