// The golden vectors of pipelines: pictures of three forms, small, the same in every build.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "packager/compile/golden/golden.h"
#include "packager/pipeline/expand_pipeline.h"
#include "schema/pipeline/pipeline.h"

using namespace mlc;

namespace {

struct Answered {
  ir::Context ctx;
  nest::Function function;
  std::vector<compile::GoldenVector> golden;
  std::string left_out;
};

void answer(const std::string& steps, Answered& out) {
  const std::string text = R"({"mlc_pipeline":1,"inputs":{"photo":{"accept":["image/png"]}},"steps":[
    {"op":"decode_image","in":"photo","color":"rgb","orient":"ignore","alpha":"drop"},)" + steps + R"(,"out":"y"}],"outputs":["y"]})";
  auto parsed = pipeline::parse(text, "pipeline.json");
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.status().text()));
  auto library = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(library.ok());
  auto expanded = pipeline::expand_pipeline(out.ctx, *library, {}, parsed->pipelines[0]);
  REQUIRE_MESSAGE(expanded.ok(), (expanded.ok() ? "" : expanded.status().text()));
  REQUIRE(expanded->functions.size() == 1);
  out.function = std::move(expanded->functions[0]);
  auto golden = compile::make_golden(out.function, {.takes_pictures = true});
  REQUIRE_MESSAGE(golden.ok(), (golden.ok() ? "" : golden.status().text()));
  out.left_out = golden->left_out;
  out.golden = std::move(golden).value().vectors;
}

std::vector<std::string> names(const Answered& a) {
  std::vector<std::string> all;
  for (const auto& golden : a.golden) all.push_back(golden.name);
  return all;
}

}  // namespace

TEST_CASE("a pipeline has a landscape, a portrait and a picture of one pixel") {
  Answered a;
  answer(R"({"op":"letterbox","size":[64,64],"upscale":true,"kernel":"linear","like":"opencv","value":114},{"op":"normalize","div":255)", a);
  REQUIRE(names(a) == std::vector<std::string>{"landscape", "one pixel", "portrait"});
  CHECK(a.golden[0].inputs[0].shape == std::vector<int64_t>{27, 40, 3});
  CHECK(a.golden[1].inputs[0].shape == std::vector<int64_t>{1, 1, 3});
  CHECK(a.golden[2].inputs[0].shape == std::vector<int64_t>{40, 27, 3});
  for (const auto& golden : a.golden) {
    CHECK(golden.outputs[0].shape == std::vector<int64_t>{64, 64, 3});
    // What is kept differs from what was computed by less than a tenth of the usual tolerance.
    auto exact = nest::interpret(a.function, golden.inputs);
    REQUIRE(exact.ok());
    const auto want = (*exact)[0].values<float>(), kept = golden.outputs[0].values<float>();
    float largest = 0, difference = 0;
    for (size_t k = 0; k < want.size(); ++k) {
      largest = std::max(largest, std::fabs(want[k]));
      difference = std::max(difference, std::fabs(want[k] - kept[k]));
    }
    CHECK(difference <= 1e-4f * largest);
  }
  Answered again;
  answer(R"({"op":"letterbox","size":[64,64],"upscale":true,"kernel":"linear","like":"opencv","value":114},{"op":"normalize","div":255)", again);
  for (size_t k = 0; k < a.golden.size(); ++k) {
    CHECK(a.golden[k].inputs[0].bytes == again.golden[k].inputs[0].bytes);
    CHECK(a.golden[k].outputs[0].bytes == again.golden[k].outputs[0].bytes);
  }
}

TEST_CASE("bytes and whole numbers are kept as they are") {
  Answered a;
  answer(R"({"op":"flip","axis":"horizontal")", a);
  REQUIRE(a.golden.size() == 3);
  for (const auto& golden : a.golden) {
    auto exact = nest::interpret(a.function, golden.inputs);
    REQUIRE(exact.ok());
    CHECK((*exact)[0].bytes == golden.outputs[0].bytes);
  }
}

TEST_CASE("an answer larger than sixteen megabytes is kept for one picture only, and said to be") {
  Answered a;
  answer(R"({"op":"letterbox","size":[1280,1280],"upscale":true,"kernel":"nearest","like":"opencv","value":0},{"op":"normalize","div":255)", a);
  CHECK(names(a) == std::vector<std::string>{"landscape"});
  CHECK_MESSAGE(a.left_out == "one pixel: its answer takes more than 16 MiB; portrait: its answer takes more than 16 MiB", a.left_out);
  Answered smaller;
  answer(R"({"op":"letterbox","size":[640,640],"upscale":true,"kernel":"nearest","like":"opencv","value":0},{"op":"normalize","div":255)", smaller);
  CHECK(smaller.golden.size() == 3);
}
