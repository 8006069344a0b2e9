#include "packager/plan/text.h"
#include "packager/plan/verify.h"

#include <doctest/doctest.h>


using namespace mlc;

namespace {

bool last_of_two(uint32_t, size_t operand) { return operand == 1; }

// x -> a -> b -> y, with a and b in the arena; `b_at` is where b lies, `arena` its size.
std::string refusal(const std::string& b_at, const std::string& arena, const std::string& third = "launch 2 (#2, #1) () tiles $0 \"third\"") {
  const std::string text =
      "plan function \"main\" { $0 = dim 0 0 $1 = const 4 $2 = mul $0 $1 $3 = const 0 $4 = const 64 $5 = add $2 $4"
      " $6 = floordiv $5 $4 $7 = mul $6 $4 $8 = add $7 $7 $9 = const 128 $10 = sub $3 $4"
      " buffer #0 f32 bytes $2 input 0 buffer #1 f32 bytes $2 output 0"
      " buffer #2 f32 bytes $2 arena $3 buffer #3 f32 bytes $2 arena " + b_at +
      " input \"x\" f32 [$0] #0 output \"y\" f32 [$0] #1 arena " + arena +
      " launch 0 (#0, #2) () tiles $0 \"first\" launch 1 (#2, #3) () tiles $0 \"second\" " + third + " }";
  auto plan = plan::parse(text);
  REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? std::string() : plan.status().message));
  return plan::verify(plan::encode(*plan), 3, last_of_two).message;
}

}  // namespace

TEST_CASE("buffers one behind the other are fine, at any length") { CHECK(refusal("$7", "$8").empty()); }

TEST_CASE("buffers that share bytes while both are alive are found, also where only some lengths do") {
  CHECK(refusal("$3", "$8").find("buffers 2 and 3 share bytes of the arena, and both are alive at instruction 1 (second)") !=
        std::string::npos);
  // 128 bytes hold 32 floats: seven do not reach it, a hundred do.
  CHECK(refusal("$9", "$8").find("does not lie in the arena") != std::string::npos);
  CHECK(!refusal("$3", "$8", "launch 2 (#3, #1) () tiles $0").empty());  // alive together in the second
}

TEST_CASE("loops have no less than no turns") {
  const std::string third = "launch 2 (#3, #1) () tiles $0 steps ";
  CHECK(refusal("$7", "$8", third + "$9").empty());
  CHECK(refusal("$7", "$8", third + "$10").find("instruction 2") != std::string::npos);
}

TEST_CASE("buffers that share bytes one after the other are fine") {
  const std::string text =
      "plan function \"main\" { $0 = const 256 $1 = const 0 buffer #0 u8 bytes $0 arena $1 buffer #1 u8 bytes $0 arena $1"
      " buffer #2 u8 bytes $0 output 0 buffer #3 u8 bytes $0 input 0 input \"x\" u8 [$0] #3 output \"y\" u8 [$0] #2 arena $0"
      " copy (#0, #3) copy (#2, #0) copy (#1, #3) copy (#2, #1) }";
  CHECK(plan::verify(plan::encode(plan::parse(text).value()), 0, last_of_two).message.empty());
  const std::string both = text.substr(0, text.size() - 1) + "copy (#2, #0) }";
  CHECK(plan::verify(plan::encode(plan::parse(both).value()), 0, last_of_two).message.find("buffers 0 and 1") != std::string::npos);
}

TEST_CASE("what the runtime would refuse is an error of the packager") {
  const std::string text = "plan function \"main\" { $0 = const 1 arena $0 launch 3 () () tiles $0 }";
  CHECK(plan::verify(plan::encode(plan::parse(text).value()), 3, last_of_two).message.find("no such kernel") != std::string::npos);
  CHECK(plan::verify(plan::encode(plan::parse(text).value()), 4, last_of_two).message.empty());
}

TEST_CASE("instructions that do not wait for what they use are found") {
  CHECK(refusal("$7", "$8", "launch 0 (#0, #1) () tiles $0 after 0 \"third\"").empty());
  CHECK(refusal("$7", "$8", "launch 2 (#2, #1) () tiles $0 after 1 \"third\"").empty());
  CHECK(refusal("$7", "$8", "launch 2 (#2, #1) () tiles $0 after 0 \"third\"").find("instruction 2 (third) does not wait for instruction 0 (first)") != std::string::npos);
  CHECK(refusal("$7", "$8", "launch 2 (#0, #2) () tiles $0 after 1 \"third\"").find("does not wait for instruction 1") != std::string::npos);
  CHECK(refusal("$7", "$8", "copy (#1, #3) after 1").find("does not wait for instruction 1") != std::string::npos);
}

TEST_CASE("what lies in the arena is written before it is read") {
  CHECK(refusal("$7", "$8", "launch 2 (#0, #1) () tiles $0 after 0 \"third\"").empty());
  const std::string text =
      "plan function \"main\" { $0 = const 64 $1 = const 0 buffer #0 u8 bytes $0 arena $1 buffer #1 u8 bytes $0 output 0"
      " output \"y\" u8 [$0] #1 arena $0 launch 0 (#0, #1) () tiles $0 \"first\" }";
  CHECK(plan::verify(plan::encode(plan::parse(text).value()), 1, last_of_two).message.find("instruction 0 (first) reads buffer 0 before anything is written to it") != std::string::npos);
  const auto first_writes = [](uint32_t, size_t) { return true; };
  CHECK(plan::verify(plan::encode(plan::parse(text).value()), 1, first_writes).message.empty());
}
