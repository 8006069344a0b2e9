#include "base/work_meter.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace mlc;
using Stop = WorkMeter::Stop;

TEST_CASE("a meter without limits counts nothing and never ends a run, but for cancel") {
  WorkMeter meter;
  CHECK(meter.take(UINT64_MAX));
  CHECK(meter.draw(1, 100) == 100);
  CHECK(meter.units_used() == 0);
  CancelFlag cancelled;
  meter.start({}, &cancelled);
  CHECK(meter.poll());
  cancelled.set();
  CHECK_FALSE(meter.poll());
  CHECK_FALSE(meter.take(1));
  CHECK(meter.why() == Stop::Cancelled);
  meter.start({}, &cancelled);
  CHECK_FALSE(meter.poll());  // before the run began
  meter.start({});
  CHECK(meter.poll());  // of the run before
}

TEST_CASE("work is given out to the last unit, and what is given back can be had again") {
  WorkMeter meter;
  CancelFlag cancelled;
  meter.start({.units = 1000}, &cancelled);
  CHECK(meter.draw(1, 600) == 600);
  CHECK(meter.draw(1, 600) == 400);
  meter.give_back(50);
  CHECK(meter.units_used() == 950);
  CHECK(meter.take(50));
  CHECK(meter.why() == Stop::None);
  CHECK_FALSE(meter.take(1));
  CHECK(meter.why() == Stop::Work);
  cancelled.set();
  CHECK_FALSE(meter.poll());
  CHECK(meter.why() == Stop::Work);  // the first reason stays
}

TEST_CASE("an account spends exactly what there is, and says no for ever after") {
  WorkMeter meter;
  const uint64_t units = 10 * WorkMeter::kBatch + 7;
  meter.start({.units = units});
  WorkAccount account(meter);
  uint64_t spent = 0;
  while (account.spend(3)) spent += 3;
  CHECK(spent <= units);
  CHECK(spent + 3 > units);
  CHECK_FALSE(account.spend(1));
  account.close();
  meter.start({.units = units});
  CHECK_FALSE(account.spend(UINT64_MAX));
}

TEST_CASE("a deadline is seen by whoever draws") {
  WorkMeter meter;
  meter.start({.time_ns = 1});
  WorkAccount account(meter);
  while (account.spend(WorkMeter::kBatch)) {
  }
  CHECK(meter.why() == Stop::Time);
}

TEST_CASE("workers that draw at the same time never get more than there is") {
  WorkMeter meter;
  const uint64_t units = 1'000'003;
  meter.start({.units = units});
  std::atomic<uint64_t> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      uint64_t mine = 0;
      while (const uint64_t drawn = meter.draw(1, 777)) mine += drawn;
      total += mine;
    });
  for (auto& t : threads) t.join();
  CHECK(total == units);
  CHECK(meter.units_used() == units);
}
