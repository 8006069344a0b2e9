// What a recording orders: as much as the plan says, and no more. The device of the tests reports what is not ordered.
#include "tests/support/device_rig.h"

namespace mlc::exec {
namespace {

using namespace test_rig;

// Two sums of x, two sums of those, and the sum of these: y = 8 x. `between`: an instruction that does nothing, between the first two and
// the others. `after_*`: what each of these waits for.
std::string rows_text(const char* after_c, const char* after_d, const char* after_e, const std::string& between = "") {
  return std::string(R"(plan
function "rows" {
  $0 = const 16
  $1 = const 4
  $2 = const 1
  $3 = const 0
  $4 = const 64
  $5 = const 128
  $6 = const 0
  $7 = const 192
  $8 = const 256
  buffer #0 f32 bytes $0 input 0
  buffer #1 f32 bytes $0 output 0
  buffer #2 f32 bytes $0 arena $3
  buffer #3 f32 bytes $0 arena $4
  buffer #4 f32 bytes $0 arena $5
  buffer #5 f32 bytes $0 arena $7
  buffer #6 f32 bytes $3 arena $3
  buffer #7 f32 bytes $3 arena $4
  input "x" f32 [$1] #0
  output "y" f32 [$1] #1
  arena $8
  launch 0 (#0, #0, #2) () tiles $2 "a"
  launch 0 (#0, #0, #3) () tiles $2 after 0 "b"
)") + between + "  launch 0 (#2, #3, #4) () tiles $2" + after_c + " \"c\"\n  launch 0 (#3, #2, #5) () tiles $2" + after_d + " \"d\"\n  launch 0 (#4, #5, #1) () tiles $2" +
         after_e + " \"e\"\n}\n";
}

struct Recorded {
  uint64_t barriers = 0, races = 0;  // barriers: between launches
};

Recorded record(const std::string& text) {
  DeviceRig rig(text);
  std::vector<float> y;
  const Status s = rig.run("rows", 4, y);
  REQUIRE_MESSAGE(s.ok(), s.message);
  CHECK(y == std::vector<float>{0, 8, 16, 24});
  CHECK(rig.device.launches == 5);
  return {rig.device.barriers - 2, rig.device.races.size()};  // without those behind the inputs and in front of the outputs
}

TEST_CASE("a barrier stands where one of the instructions that another waits for is behind the last barrier") {
  const Recorded r = record(rows_text(" after 2", " after 2", " after 4"));
  CHECK(r.barriers == 2);
  CHECK(r.races == 0);
}

TEST_CASE("an instruction that waits for all before it has a barrier") {
  const Recorded r = record(rows_text("", "", ""));
  CHECK(r.barriers == 3);
  CHECK(r.races == 0);
}

TEST_CASE("a plan that does not say what waits gets no barrier for it") {
  CHECK(record(rows_text(" after 1", " after 2", " after 4")).races == 0);  // the barrier for "a" is one for "b"
  CHECK(record(rows_text(" after 2", " after 2", " after 2")).races > 0);
}

TEST_CASE("instructions that do nothing for these shapes wait for nothing, and nothing waits for them") {
  for (const char* nothing : {"  launch 0 (#0, #0, #2) () tiles $6 \"another case of a\"\n", "  copy (#6, #7)\n"}) {
    const Recorded r = record(rows_text(" after 3", " after 3", " after 5", nothing));
    CHECK(r.barriers == 2);
    CHECK(r.races == 0);
    // All of the first two are in front of it, and only it is behind them.
    CHECK(record(rows_text(" after 2", " after 3", " after 5", nothing)).barriers == 2);
  }
}

}  // namespace
}  // namespace mlc::exec
