// Records of tuning: their text, what is refused of it, and which schedule follows.
#include <doctest/doctest.h>

#include "packager/tune/records.h"

using namespace mlc;
using tune::Record;
using tune::Records;
using tune::Setup;
using tune::Timing;

namespace {

const std::string kNest(64, 'a'), kOther(64, 'b'), kCompiler(64, '0');

Setup setup(const std::string& machine, unsigned threads = 1) { return {"x86-64-v4", threads, kCompiler, "batch=1", machine}; }

Records of(std::vector<Record> all) {
  Records records;
  for (Record& r : all) records.add(std::move(r));
  return records;
}

std::string refusal(const std::string& text) {
  const auto records = Records::parse(text);
  REQUIRE_FALSE(records.ok());
  return records.status().message;
}

}  // namespace

TEST_CASE("what is printed is read again") {
  const Records records = of({{setup("first CPU"), kNest, "Conv_1 (Conv)", {{10, 12, 40, "map d0:1 cut"}, {8, 9, 41, "map d0:4 cut"}}},
                              {{"armv8-a", 3, kCompiler, "", ""}, kOther, "", {{1, 1, 1, "proc"}}},
                              {setup("first CPU"), kOther, "Gemm\n2", {{0, 0, 1, "map"}}}});
  const std::string text = records.print();
  const auto again = Records::parse(text);
  REQUIRE(again.ok());
  CHECK(again->print() == text);
  REQUIRE(again->all().size() == 3);
  CHECK(again->all()[1].source == "Gemm?2");  // behind the other of its setup
  CHECK(again->all()[0].timings[1].schedule == "map d0:4 cut");
  CHECK(again->all()[2].setup.extents.empty());
  CHECK(text.find("extents - machine \n") != std::string::npos);
}

TEST_CASE("anything else is refused, with its line") {
  const std::string first = "mlpack tuning 1\n", where = "setup t threads 1 compiler " + kCompiler + " extents - machine m\n", nest = "nest " + kNest + " n\n";
  CHECK(Records::parse(first).ok());
  CHECK(Records::parse(first + where + nest + "time 1 1 1 map\n").ok());
  CHECK(refusal("").find("empty") != std::string::npos);
  CHECK(refusal("mlpack tuning 2\n").find("line 1") != std::string::npos);
  CHECK(refusal(first + nest).find("line 2: a nest before the first setup") != std::string::npos);
  CHECK(refusal(first + where + "time 1 1 1 map\n").find("line 3") != std::string::npos);
  CHECK(refusal(first + where + nest + where + "setup t threads 2 compiler " + kCompiler + " extents - machine m\ntime 1 1 1 map\n").find("line 6") != std::string::npos);
  for (const char* time : {"time 2 1 1 map", "time 1 1 0 map", "time 1 1 1 ", "time 1 1 1", "time -1 1 1 map", "time 01 1 1 map", "time 1 99999999999999999999 1 map", "times 1 1 1 map", ""})
    CHECK(refusal(first + where + nest + std::string(time) + "\n").find("line 4") != std::string::npos);
  for (const std::string& setup : {std::string("setup  threads 1 compiler ") + kCompiler + " extents - machine m", "setup t threads 0 compiler " + kCompiler + " extents - machine m",
                                  std::string("setup t threads 1 compiler 12 extents - machine m"), "setup t threads 1 compiler " + kCompiler + " extents  machine m",
                                  std::string("setup t threads 1"), std::string("setup ")})
    CHECK(refusal(first + setup + "\n").find("line 2") != std::string::npos);
  CHECK(refusal(first + where + "nest " + kNest.substr(1) + " n\n").find("line 3") != std::string::npos);
  CHECK(refusal(first + where + nest + "time 1 1 1 " + std::string(5000, 'x') + "\n").find("longer than") != std::string::npos);
}

TEST_CASE("the compiler's schedule stays unless another is better by its least and its median time") {
  const auto best = [](std::vector<Timing> timings) { return of({{setup("m"), kNest, "", std::move(timings)}}).best("x86-64-v4", kNest); };
  CHECK(best({{100, 110, 9, "own"}, {97, 107, 9, "b"}}) == "b");
  CHECK_FALSE(best({{100, 110, 9, "own"}, {99, 100, 9, "b"}}));
  CHECK_FALSE(best({{100, 110, 9, "own"}, {90, 110, 9, "b"}}));
  CHECK_FALSE(best({{100, 110, 9, "own"}, {120, 130, 9, "b"}}));
  CHECK(best({{100, 110, 9, "own"}, {95, 105, 9, "b"}, {80, 90, 9, "c"}}) == "c");
  CHECK_FALSE(best({{0, 0, 9, "own"}, {0, 0, 9, "b"}}));
  CHECK_FALSE(best({}));
}

TEST_CASE("of several setups the schedule counts that loses least anywhere") {
  Records records = of({{setup("one"), kNest, "", {{100, 100, 9, "own"}, {50, 50, 9, "fast here"}, {70, 70, 9, "good"}}},
                        {setup("two"), kNest, "", {{100, 100, 9, "own"}, {200, 200, 9, "fast here"}, {90, 90, 9, "good"}}}});
  CHECK(records.best("x86-64-v4", kNest) == "good");
  CHECK_FALSE(records.best("x86-64-v3", kNest));
  CHECK_FALSE(records.best("x86-64-v4", kOther));
  // Somebody has not tried it.
  records.add({setup("three"), kNest, "", {{100, 100, 9, "own"}, {99, 99, 9, "fast here"}}});
  CHECK_FALSE(records.best("x86-64-v4", kNest));
}

TEST_CASE("a nest that is measured again at its setup is replaced") {
  Records records = of({{setup("m"), kNest, "", {{100, 100, 9, "own"}, {50, 50, 9, "b"}}}});
  records.add({setup("m"), kNest, "", {{100, 100, 9, "own"}, {99, 99, 9, "b"}}});
  CHECK(records.all().size() == 1);
  CHECK_FALSE(records.best("x86-64-v4", kNest));
  records.add({setup("m", 2), kNest, "", {{100, 100, 9, "own"}, {99, 99, 9, "b"}}});
  CHECK(records.of("x86-64-v4", {kNest}).all().size() == 2);
  CHECK(records.of("x86-64-v4", {kOther}).all().empty());
  CHECK(records.of_compiler(kCompiler).all().size() == 2);
  CHECK(records.of_compiler(kNest).all().empty());
}
