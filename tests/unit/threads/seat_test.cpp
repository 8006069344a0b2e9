// When pinned threads are let go.
#include <doctest/doctest.h>

#include "runtime/threads/affinity.h"

using namespace mlc;

TEST_CASE("a thread keeps its seat until it is pushed off, and has it again when that has not happened for a while") {
  constexpr uint64_t kMs = 1'000'000;
  Seat seat;
  CHECK(seat.is_time_to_look(5));
  CHECK(seat.look(5, 40));  // what was before does not count
  CHECK(!seat.is_time_to_look(5 + kMs / 10));
  CHECK(seat.is_time_to_look(5 + kMs));
  CHECK(seat.look(10 * kMs, 40));
  CHECK(!seat.look(20 * kMs, 41));
  CHECK(!seat.stays(100 * kMs));
  CHECK(!seat.look(200 * kMs, 41));
  CHECK(seat.stays(230 * kMs));
  CHECK(!seat.look(230 * kMs, 43));
  CHECK(!seat.look(400 * kMs, 43));
  CHECK(seat.look(500 * kMs, 43));
}
