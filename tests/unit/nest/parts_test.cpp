#include "packager/nest/facts/parts.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/text/nest_text.h"

using namespace mlc;

namespace {

// "k in y at 0, v in y at 256*n": the parts that are found in a function.
std::string parts(const std::string& text, int64_t alignment = 64) {
  ir::Context ctx;
  auto function = nest::parse(ctx, text);
  REQUIRE_MESSAGE(function.ok(), (function.ok() ? std::string() : function.status().message));
  std::string said;
  const nest::Parts found = nest::parts_of_outputs(ctx, *function, alignment);
  for (const nest::Parts::Part& p : found.parts)
    said += (said.empty() ? "" : ", ") + function->arrays[p.array].name + " in " + function->arrays[p.output].name + " at " + ir::to_string(p.offset);
  size_t done = 0;
  for (const bool is_done : found.is_done) done += is_done;
  CHECK(done == found.parts.size());
  return said;
}

}  // namespace

namespace {

// k and v have n rows of 16; y is what `rest` makes of them, and z reads k.
std::string pair(const std::string& rest, const std::string& shape = "2, $n, 16", const std::string& outputs = "%3 %4") {
  return R"(function "f"
sym $n 0 1000 multiple 1
array %0 "x" input f32 [$n, 16]
array %1 "k" temp f32 [$n, 16]
array %2 "v" temp f32 [$n, 16]
array %3 "y" temp f32 [)" + shape + R"(]
array %4 "z" temp f32 [$n, 16]
dim a = $n
dim b = 16
inputs %0
outputs )" + outputs + R"(
nest "k" (a, b) {
  write %1[a, b] = %0[a, b] + 1.0
}
nest "v" (a, b) {
  write %2[a, b] = %1[a, b] * 2.0
}
)" + rest + R"(nest "z" (a, b) {
  write %4[a, b] = %1[a, b] * %2[a, b]
}
)";
}
const std::string kKeys = "nest \"y1\" (a, b) {\n  write %3[0, a, b] = %1[a, b]\n}\n";
const std::string kValues = "nest \"y2\" (a, b) {\n  write %3[1, a, b] = %2[a, b]\n}\n";

}  // namespace

TEST_CASE("what is put side by side in an output lies there from the start") {
  CHECK(parts(pair(kKeys + kValues)) == "k in y at 0, v in y at $n * 64");
  CHECK(parts(pair(kValues + kKeys)) == "v in y at $n * 64, k in y at 0");
  CHECK(parts(pair(kKeys + kValues), 256) == "k in y at 0");  // v may begin between two bindings of a device: it is copied
}

TEST_CASE("a part whose neighbour is computed in place is one all the same") {
  CHECK(parts(pair(kKeys + "nest \"y2\" (a, b) {\n  write %3[1, a, b] = %2[a, b] + 1.0\n}\n")) == "k in y at 0");
}

TEST_CASE("what is no whole range of the output is copied") {
  CHECK(parts(pair(kKeys)) == "");  // half of y is not written: by nobody who is known
  CHECK(parts(pair(kKeys + "nest \"y2\" (a, b) {\n  write %3[0, a, b] = %2[a, b]\n}\n")) == "");  // over the first
  CHECK(parts(pair("nest \"y1\" (a, b) {\n  write %3[a, 0, b] = %1[a, b]\n}\nnest \"y2\" (a, b) {\n  write %3[a, 1, b] = %2[a, b]\n}\n", "$n, 2, 16")) == "");
}

TEST_CASE("what is an output itself, or is used together with the output, is copied") {
  CHECK(parts(pair(kKeys + kValues, "2, $n, 16", "%3 %4 %2")) == "k in y at 0");
  CHECK(parts(pair(kKeys + kValues + "nest \"more\" (a, b) {\n  write %4[a, b] = %1[a, b] + %3[1, a, b]\n}\n")) == "v in y at $n * 64");
}

TEST_CASE("a part whose place is not a multiple of 64 bytes is copied") {
  const auto small = [](std::string text) {
    for (size_t at = 0; (at = text.find("16", at)) != std::string::npos;) text.replace(at, 2, "12");
    return text;
  };
  CHECK(parts(small(pair(kKeys + kValues))) == "k in y at 0");
}
