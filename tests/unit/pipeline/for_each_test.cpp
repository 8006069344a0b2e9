// Sections of host and array steps in turn, and steps for each item of a list; programs are played by the test.
#include <doctest/doctest.h>

#include <span>

#include "runtime/pipeline/host_pipeline.h"
#include "schema/pipeline/pipeline.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

Pipeline parsed(const std::string& body_steps, const std::string& out, const std::string& outputs) {
  const std::string text = R"({"mlc_pipeline": 1, "programs": {"find": "find.onnx", "name": "name.onnx"},
    "inputs": {"photo": {"accept": ["image/png"]}}, "steps": [
    {"op": "decode_image", "in": "photo", "color": "gray", "like": "pillow", "orient": "ignore", "alpha": "drop", "out": "gray"},
    {"op": "layout", "in": "gray", "to": "NCHW", "out": "x"},
    {"op": "run", "program": "find", "in": {"x": "x"}, "out": {"y": "boxes"}},
    {"op": "cut", "in": "gray", "boxes": "boxes", "out": "parts"},
    {"op": "for_each", "in": {"part": "parts"}, "steps": [)" + body_steps + R"(], "out": {)" + out + R"(}}], "outputs": [)" + outputs + "]}";
  auto file = parse(text, "p.json");
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.status().text()));
  return std::move(file->pipelines[0]);
}

Status refused(const std::string& body_steps, const std::string& out, const std::string& outputs) {
  const std::string text = R"({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/png"]}}, "steps": [
    {"op": "decode_image", "in": "photo", "color": "gray", "like": "pillow", "orient": "ignore", "alpha": "drop", "out": "gray"},
    {"op": "layout", "in": "gray", "to": "NCHW", "out": "x"},
    {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "boxes"}},
    {"op": "cut", "in": "gray", "boxes": "boxes", "out": "parts"},
    {"op": "for_each", "in": {"part": "parts"}, "steps": [)" + body_steps + R"(], "out": {)" + out + R"(}}], "outputs": [)" + outputs + "]}";
  auto file = parse(text, "p.json");
  REQUIRE(!file.ok());
  return file.status();
}

HostTensor floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return HostTensor::from<float>(DType::F32, std::move(shape), values).value();
}

// A picture of 4 x 6 whose pixels are their numbers, and a program that answers with `boxes`. The others answer for each picture of a
// batch with its sum.
struct Played {
  std::vector<std::string> ran;              // programs, with the shapes that they were given
  HostTensor boxes = floats({0, 4}, {});
  AnswerBudget budget;

  Result<std::vector<Answer>> run(const Pipeline& p) {
    auto host = HostPipeline::create(p, [](std::string_view) -> Result<Bytes> { return Status(Code::NotFound, "no asset"); });
    REQUIRE(host.ok());
    Programs programs;
    programs.run = [&](const std::string& name, const std::vector<NamedTensor>& inputs) { return answer(name, inputs); };
    programs.no_rows = [](const std::string&, const std::string&) { return HostTensor::zeros(DType::F32, {0, 2}); };
    std::vector<NamedTensor> made;
    made.push_back({"gray", HostTensor::zeros(DType::U8, {4, 6, 1}).value()});
    for (size_t k = 0; k < 24; ++k) made[0].tensor.as<uint8_t>()[k] = static_cast<uint8_t>(k);
    return host->run(std::move(made), {}, budget, programs);
  }

 private:
  Result<std::vector<NamedTensor>> answer(const std::string& name, const std::vector<NamedTensor>& inputs) {
    const HostTensor& in = inputs.at(0).tensor;
    ran.push_back(name + " " + type_text(in.dtype, in.shape));
    std::vector<NamedTensor> results;
    if (name == "default") results.push_back({"boxes", boxes.clone().value()});
    if (name == "default") return results;
    const size_t rows = in.shape.size() == 4 ? static_cast<size_t>(in.shape[0]) : 1, each = in.data.size() / rows;
    std::vector<float> sums;
    for (size_t row = 0; row < rows; ++row) {
      float sum = 0;
      for (size_t k = 0; k < each; ++k) sum += static_cast<float>(in.as<uint8_t>()[row * each + k]);
      sums.insert(sums.end(), {sum, 100 - sum});
    }
    results.push_back({"sums", floats({static_cast<int64_t>(rows), 2}, sums)});
    results.push_back({"small", in.clone().value()});  // [h, w, 1] as a row of a batch
    if (in.shape.size() == 3) results.back().tensor.shape = {1, 1, in.shape[0], in.shape[1]};
    return results;
  }
};

constexpr const char* kEachAlone = R"({"op": "layout", "in": "part", "to": "CHW", "out": "x"},
  {"op": "run", "program": "name", "in": {"x": "x"}, "out": {"y": "sums"}},
  {"op": "top_k", "in": "sums", "k": 1, "out": "best"})";
constexpr const char* kBatched = R"({"op": "layout", "in": "part", "to": "NCHW", "out": "small"},
  {"op": "batch", "max": 2, "out": "rows"},
  {"op": "run", "program": "name", "in": {"x": "rows"}, "out": {"y": "sums"}},
  {"op": "top_k", "in": "sums", "k": 1, "out": "best"})";

std::vector<float> of(const Answer& a) {
  const auto span = std::get<HostTensor>(a.value).as<float>();
  return {span.begin(), span.end()};
}

}  // namespace

TEST_CASE("steps of host and device follow each other in sections") {
  const Pipeline p = parsed(kEachAlone, R"("sums": "all", "best": "which")", R"("all", "which")");
  const auto all = sections(p);
  REQUIRE(all.size() == 3);
  CHECK(all[1].program == "default");
  CHECK(all[2].steps == std::vector<uint32_t>{3, 4});
  const Pipeline& body = *std::get<ForEach>(p.steps[4].what).body;
  const auto inner = sections(body);
  REQUIRE(inner.size() == 2);
  CHECK(inner[0].program == "default.each");
  CHECK(with_bodies(p) == std::vector<const Pipeline*>{&p, &body});
}

TEST_CASE("steps are done for each item") {
  Played played;
  played.boxes = floats({3, 5}, {0, 0, 2, 1, 9, 1.5f, 1, 3, 2.1f, 9, -7, 3, 99, 88, 9});
  auto answers = played.run(parsed(kEachAlone, R"("sums": "all", "best": "which")", R"("all", "which")"));
  REQUIRE_MESSAGE(answers.ok(), (answers.ok() ? "" : answers.status().text()));
  CHECK(played.ran == std::vector<std::string>{"default u8[4,6,1]", "default.each u8[1,2,1]", "default.each u8[2,2,1]", "default.each u8[1,6,1]"});
  CHECK(of((*answers)[0]) == std::vector<float>{1, 99, 7 + 8 + 13 + 14, 100 - 42, 123, -23});
  const auto& rows = std::get<Classes>((*answers)[1].value).rows;
  REQUIRE(rows.size() == 3);
  CHECK(rows[2][0].index == 0);
  CHECK(rows[0][0].index == 1);
}

TEST_CASE("a list without items gives no rows") {
  Played played;
  auto answers = played.run(parsed(kEachAlone, R"("sums": "all", "best": "which")", R"("all", "which")"));
  REQUIRE_MESSAGE(answers.ok(), (answers.ok() ? "" : answers.status().text()));
  CHECK(std::get<HostTensor>((*answers)[0].value).shape == std::vector<int64_t>{0, 2});
  CHECK(std::get<Classes>((*answers)[1].value).rows.empty());
}

TEST_CASE("a batch takes items that are alike, and no more than it may") {
  Played played;
  played.boxes = floats({5, 4}, {0, 0, 2, 1, 2, 0, 4, 1, 4, 0, 6, 1, 0, 0, 2, 2, 0, 0, 2, 1});
  auto answers = played.run(parsed(kBatched, R"("sums": "all", "best": "which")", R"("all", "which")"));
  REQUIRE_MESSAGE(answers.ok(), (answers.ok() ? "" : answers.status().text()));
  std::vector<std::string> batches;
  for (const std::string& ran : played.ran)
    if (ran.starts_with("default.each.2")) batches.push_back(ran);
  CHECK(batches == std::vector<std::string>{"default.each.2 u8[2,1,1,2]", "default.each.2 u8[1,1,1,2]", "default.each.2 u8[1,1,2,2]", "default.each.2 u8[1,1,1,2]"});
  CHECK(of((*answers)[0]) == std::vector<float>{1, 99, 5, 95, 9, 91, 14, 86, 1, 99});
  CHECK(std::get<Classes>((*answers)[1].value).rows.size() == 5);
}

TEST_CASE("what an item took is given back when the next one comes") {
  for (const char* steps : {kEachAlone, kBatched}) {
    uint64_t taken[2] = {};
    for (const int64_t count : {10, 20}) {
      Played played;
      std::vector<float> boxes;
      for (int64_t k = 0; k < count; ++k) boxes.insert(boxes.end(), {0, 0, 6, 4});
      played.boxes = floats({count, 4}, boxes);
      played.budget = AnswerBudget(1 << 20);
      REQUIRE(played.run(parsed(steps, R"("best": "which")", R"("which")")).ok());
      taken[count == 20] = (1 << 20) - played.budget.left();
    }
    // What grows are the parts that `cut` makes, their boxes, and the answers.
    CHECK(taken[1] - taken[0] < 10 * (sizeof(HostTensor) + 24 + 16 + 2 * sizeof(Scored) + sizeof(std::vector<Scored>)));
  }
}

TEST_CASE("what cannot be is said with its place") {
  const auto says = [](const Status& s, const char* text) { return s.text().find(text) != std::string::npos; };
  CHECK(says(refused(kEachAlone, R"("some": "all")", R"("all")"), "no value 'some' before this"));
  CHECK(says(refused(kEachAlone, "", R"("x")"), "step 'for_each' names no result"));
  CHECK(says(refused(std::string(kBatched) + R"(, {"op": "batch", "in": "sums", "max": 3, "out": "more"})", R"("more": "all", "best": "b")", R"("all", "b")"), "a second 'batch'"));
  CHECK(says(refused(R"({"op": "for_each", "in": {"a": "part"}, "steps": [], "out": {}})", R"("part": "all")", R"("all")"), "is not in this version"));
  CHECK(says(refused(kEachAlone, R"("sums": "all", "best": "which")", R"("parts", "all", "which")"), "'parts' is a list, which 'for_each' takes; it is no answer"));
  auto twice = parse(R"({"mlc_pipeline": 1, "programs": {"p": "p.onnx"}, "pipelines": {"p": {"inputs": {"a": {"accept": ["application/x-npy"]}},
    "steps": [{"op": "sigmoid", "in": "a", "out": "b"}], "outputs": ["b"]}}})", "p.json");
  REQUIRE(!twice.ok());
  CHECK(says(twice.status(), "needs the name 'p' for a program, which another one has"));
  auto outside = parse(R"({"mlc_pipeline": 1, "inputs": {"a": {"accept": ["application/x-npy"]}}, "steps": [{"op": "batch", "in": "a", "max": 2, "out": "b"}], "outputs": ["b"]})", "p.json");
  REQUIRE(!outside.ok());
  CHECK(says(outside.status(), "stands in the steps of a 'for_each' only"));
}
