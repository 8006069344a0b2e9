// The steps `text_boxes` and `cut` in a pipeline: what is read of them, and what they hand on.
#include <doctest/doctest.h>

#include "runtime/pipeline/host_pipeline.h"
#include "schema/pipeline/pipeline.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

constexpr const char* kBoxes = R"("threshold": 0.3, "box_threshold": 0.6, "unclip_ratio": 1.5, "min_side": 3, "max_candidates": 100)";

std::string text_of(const std::string& boxes, const std::string& cut, const std::string& outputs = R"("where", "sizes")") {
  return R"({"mlc_pipeline": 1, "programs": {"find": "find.onnx", "read": "read.onnx"}, "inputs": {"page": {"accept": ["image/png"]}}, "steps": [
    {"op": "decode_image", "in": "page", "color": "rgb", "orient": "ignore", "alpha": "drop", "out": "picture"},
    {"op": "resize", "in": "picture", "size": [50, 100], "kernel": "linear", "like": "opencv", "out": "small"},
    {"op": "pad", "mode": "constant", "value": 0, "multiple": 64},
    {"op": "layout", "to": "NCHW", "out": "x"},
    {"op": "run", "program": "find", "in": {"x": "x"}, "out": {"y": "map"}},
    {"op": "text_boxes", "in": "map", )" + boxes + R"(},
    {"op": "cut", "in": "picture", )" + cut + R"(, "out": "parts"},
    {"op": "for_each", "in": {"part": "parts"}, "steps": [
      {"op": "layout", "in": "part", "to": "NCHW", "out": "line"},
      {"op": "run", "program": "read", "in": {"x": "line"}, "out": {"y": "size"}}], "out": {"size": "sizes"}}], "outputs": [)" + outputs + "]}";
}

const std::string kWhole = std::string(R"("picture": "picture", "resized": "small", )") + kBoxes + R"(, "out": {"corners": "where", "scores": "sure"})";
const std::string kCorners = R"("corners": "where", "like": "opencv", "upright": true)";

std::string problem(const std::string& text) {
  auto file = parse(text, "p.json");
  REQUIRE(!file.ok());
  return file.status().text();
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("lines of a page are found, cut out and read one by one") {
  auto file = parse(text_of(kWhole, kCorners, R"("where", "sure", "sizes")"), "p.json");
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.status().text()));
  auto host = HostPipeline::create(file->pipelines[0], [](std::string_view) -> Result<Bytes> { return Status(Code::NotFound, "no asset"); });
  REQUIRE(host.ok());

  Programs programs;
  programs.no_rows = [](const std::string&, const std::string&) { return HostTensor::zeros(DType::F32, {0, 2}); };
  programs.run = [](const std::string& name, const std::vector<NamedTensor>& inputs) -> Result<std::vector<NamedTensor>> {
    const HostTensor& in = inputs.at(0).tensor;
    std::vector<NamedTensor> results;
    if (name == "default.each") {  // the size of the part
      const float size[] = {static_cast<float>(in.shape[0]), static_cast<float>(in.shape[1])};
      results.push_back({"size", HostTensor::from<float>(DType::F32, {1, 2}, size).value()});
      return results;
    }
    HostTensor map = HostTensor::zeros(DType::F32, {1, 1, 64, 128}).value();
    for (int64_t y = 10; y < 20; ++y)
      for (int64_t x = 10; x < 60; ++x) map.as<float>()[static_cast<size_t>(y * 128 + x)] = 1;  // 50 x 10
    for (int64_t y = 5; y < 45; ++y)
      for (int64_t x = 80; x < 86; ++x) map.as<float>()[static_cast<size_t>(y * 128 + x)] = 0.75f;  // 6 x 40, read from below
    results.push_back({"small", HostTensor::zeros(DType::U8, {50, 100, 3}).value()});
    results.push_back({"map", std::move(map)});
    return results;
  };
  std::vector<NamedTensor> made;
  made.push_back({"picture", HostTensor::zeros(DType::U8, {100, 300, 3}).value()});
  AnswerBudget budget;
  auto answers = host->run(std::move(made), {}, budget, programs);
  REQUIRE_MESSAGE(answers.ok(), (answers.ok() ? "" : answers.status().text()));
  const auto values = [&](size_t k) {
    const auto span = std::get<HostTensor>((*answers)[k].value).as<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  REQUIRE(std::get<HostTensor>((*answers)[0].value).shape == std::vector<int64_t>{2, 4, 2});
  // The map's rows are doubled, its columns taken three times. Both lines begin within ten rows.
  const std::vector<float> where = values(0), sizes = values(2);
  CHECK(values(1) == std::vector<float>{1, 0.75f});
  CHECK((where[0] > 0 && where[0] < 30 && where[2] > 180 && where[2] < 210));
  CHECK((where[8] > 210 && where[8] < 240 && where[10] > 255 && where[10] < 285));
  CHECK(sizes == std::vector<float>{where[7] - where[1], where[2] - where[0], where[10] - where[8], where[15] - where[9]});
}

TEST_CASE("a step that finds text says what it needs, and its bounds") {
  CHECK(has(problem(text_of(std::string(kBoxes) + R"(, "out": "where")", kCorners)), "lacks 'picture'"));
  CHECK(has(problem(text_of(R"("picture": "map", )" + std::string(kBoxes) + R"(, "out": "where")", kCorners)), "takes a picture [h, w, c], 'map' is"));
  CHECK(has(problem(text_of(R"("picture": "picture", "out": "where")", kCorners)), "'threshold'"));
  const auto with = [](const std::string& key, const std::string& value) {
    std::string text = kWhole;
    const size_t at = text.find("\"" + key + "\": ") + key.size() + 4;
    return text_of(text.replace(at, text.find_first_of(",}", at) - at, value), kCorners);
  };
  CHECK(has(problem(with("threshold", "1.5")), "'threshold' of step 'text_boxes' is not between 0 and 1"));
  CHECK(has(problem(with("box_threshold", "-1")), "'box_threshold' of step 'text_boxes' is not between 0 and 1"));
  CHECK(has(problem(with("unclip_ratio", "5")), "'unclip_ratio' of step 'text_boxes' is not between 0 and 4"));
  CHECK(has(problem(with("max_candidates", "10001")), "'max_candidates'"));
  CHECK(has(problem(text_of(R"("picture": "picture", )" + std::string(kBoxes) + R"(, "out": {"scores": "where"})", kCorners)), "lacks 'corners'"));
  CHECK(has(problem(text_of(R"("picture": "picture", )" + std::string(kBoxes) + R"(, "out": {"corners": "where", "texts": "t"})", kCorners)), "'texts'"));
}

TEST_CASE("a step that cuts takes boxes or corners, and says how") {
  CHECK(has(problem(text_of(kWhole, R"("like": "opencv", "upright": true)")), "lacks 'boxes'"));
  CHECK(has(problem(text_of(kWhole, R"("corners": "where")")), "lacks 'like' (opencv), 'upright'"));
  const std::string both = text_of(kWhole, R"("corners": "where", "boxes": "where", "like": "opencv", "upright": true)");
  CHECK(has(problem(both), "'boxes' of step 'cut' stands beside 'corners'"));
  CHECK(has(problem(text_of(kWhole, R"("boxes": "where", "upright": true)")), "'upright' of step 'cut' has no meaning beside 'boxes'"));
  CHECK(has(problem(text_of(kWhole, R"("corners": "where", "like": "pillow", "upright": true)")), "expected one of: opencv"));
}
