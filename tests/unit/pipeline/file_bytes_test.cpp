// Files of any kind: the bytes of their ends as numbers, and labels for scores that are low.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "runtime/pipeline/host_pipeline.h"
#include "runtime/pipeline/host_steps.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

using Numbers = std::vector<int32_t>;

Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }

Numbers numbers_of(const FileBytes& step, const FileContent& file) {
  const auto made = file_bytes(step, file);
  REQUIRE_MESSAGE(made.ok(), made.status().text());
  return {made->as<int32_t>().begin(), made->as<int32_t>().end()};
}

// The definition, byte by byte.
Numbers expected(const FileBytes& step, const std::string& file) {
  Numbers all;
  for (const FileBytes::Part& part : step.parts) {
    std::string bytes = file;
    if (part.from_end) std::reverse(bytes.begin(), bytes.end());
    bytes = bytes.substr(0, static_cast<size_t>(part.within));
    if (part.strips) bytes.erase(0, std::min(bytes.find_first_not_of(" \t\n\v\f\r"), bytes.size()));
    Numbers one;
    for (int64_t k = 0; k < part.length; ++k)
      one.push_back(static_cast<size_t>(k) < bytes.size() ? static_cast<uint8_t>(bytes[static_cast<size_t>(k)]) : static_cast<int32_t>(step.fill));
    if (part.from_end) std::reverse(one.begin(), one.end());
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

constexpr const char* kPipeline = R"({"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/octet-stream"]}}, "steps": [
  {"op": "file_bytes", "in": "file", "fill": 256, "parts": [{"of": "start", "within": 4, "strip": "none", "length": 2}, {"of": "end", "within": 5, "strip": "none", "length": 3}]},
  {"op": "file_bytes", "in": "file", "fill": -1, "parts": [{"of": "start", "within": 6, "strip": "white space", "length": 2}], "out": "other"},
  {"op": "run", "program": "main", "in": {"x": "steps[0]", "y": "other"}, "out": {"z": "z"}}], "outputs": ["z"]})";

HostPipeline host() {
  auto parsed = parse(kPipeline, "p.json");
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
  auto made = HostPipeline::create(parsed->pipelines[0], [](std::string_view) -> Result<Bytes> { return Bytes(); });
  REQUIRE(made.ok());
  return std::move(*made);
}

std::string problem(std::string_view step) {
  const std::string text = R"({"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/octet-stream"]}}, "steps": [)" + std::string(step) +
                           R"(, {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}}], "outputs": ["y"]})";
  const auto parsed = parse(text, "p.json");
  return parsed.ok() ? "" : parsed.status().text();
}

}  // namespace

TEST_CASE("the bytes of both ends are numbers, and what is missing is filled up on the inner side") {
  const FileBytes step{{{false, 8, true, 4}, {true, 8, true, 4}}, 256, 0};
  CHECK(numbers_of(step, {bytes_of(" \nab")}) == Numbers{'a', 'b', 256, 256, ' ', '\n', 'a', 'b'});
  CHECK(numbers_of(step, {bytes_of("ab\t ")}) == Numbers{'a', 'b', '\t', ' ', 256, 256, 'a', 'b'});
  CHECK(numbers_of(step, {bytes_of("")}) == Numbers(8, 256));
  CHECK(numbers_of(step, {bytes_of("        abc        ")}) == Numbers(8, 256));
  CHECK(numbers_of({{{true, 3, false, 2}}, 0, 0}, {bytes_of("a\xff" "z")}) == Numbers{255, 'z'});
}

TEST_CASE("bytes between the ends may be left out: random files and parts") {
  std::mt19937 random(5);
  const std::string letters(" \t\n\v\f\rab\0\xff", 10);
  for (int round = 0; round < 2000; ++round) {
    std::string file(random() % 40, ' ');
    for (char& c : file) c = letters[random() % letters.size()];
    FileBytes step;
    uint64_t first = 0, last = 0;
    for (size_t k = 0; k < 1 + random() % 3; ++k) {
      step.parts.push_back({random() % 2 == 0, static_cast<int64_t>(1 + random() % 20), random() % 2 == 0, static_cast<int64_t>(1 + random() % 20)});
      uint64_t& end = step.parts.back().from_end ? last : first;
      end = std::max(end, static_cast<uint64_t>(step.parts.back().within));
    }
    step.fill = static_cast<int64_t>(random() % 600) - 300;
    const Numbers all = numbers_of(step, {bytes_of(file)});
    CHECK(all == expected(step, file));
    if (file.size() <= first + last) continue;
    const std::string ends = file.substr(0, first) + file.substr(file.size() - last);
    CHECK(numbers_of(step, {bytes_of(ends), first, file.size() - first - last}) == all);
  }
}

TEST_CASE("bytes that a step reads and that are left out are an error, too few bytes as well") {
  const FileBytes step{{{false, 4, true, 3}}, 0, 3};
  const std::string file = "abcdef";
  CHECK(file_bytes(step, {bytes_of(file), 3, 10}).status().message == "a step reads 4 bytes at the start of the file, and some of them are left out");
  CHECK(file_bytes(step, {bytes_of(file), 7, 10}).status().code == Code::Usage);
  const auto few = file_bytes(step, {bytes_of("  ab  ")});
  CHECK(few.status().number == 4001);
  CHECK(few.status().message == "the file has 2 bytes, and step 'file_bytes' takes 3 at least, white space not counted");
  io::DecodeLimits small;
  small.memory = 8;
  CHECK(file_bytes({{{false, 4, true, 3}}, 0, 0}, {bytes_of(file)}, small).status().code == Code::Resource);
}

TEST_CASE("a pipeline says which ends it needs, and takes files, bytes and arrays of them") {
  const HostPipeline pipeline = host();
  for (const char* name : {"", "file"}) {
    const auto ends = pipeline.ends_of(name);
    REQUIRE(ends);
    CHECK(ends->first == 6);
    CHECK(ends->last == 5);
  }
  CHECK(!pipeline.ends_of("z"));
  const std::string file = " \xff" "bcdefghijklm";
  const auto made_of = [&](GivenInput given) {
    std::vector<GivenInput> all;
    all.push_back(std::move(given));
    return pipeline.before(std::move(all));
  };
  const std::string ends = file.substr(0, 6) + file.substr(file.size() - 5);
  auto array = HostTensor::from(DType::U8, {static_cast<int64_t>(file.size())}, std::span(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
  REQUIRE(array.ok());
  GivenInput inputs[] = {{"file", bytes_of(file), {}}, {"", bytes_of(ends), {}, 6, file.size() - 11}, {"file", {}, std::move(*array)}};
  for (GivenInput& given : inputs) {
    const auto made = made_of(std::move(given));
    REQUIRE_MESSAGE(made.ok(), made.status().text());
    CHECK((*made)[0].tensor.as<int32_t>()[0] == ' ');
    CHECK((*made)[0].tensor.as<int32_t>()[4] == 'm');
    CHECK((*made)[1].tensor.as<int32_t>()[0] == 255);
  }
  auto floats = HostTensor::zeros(DType::F32, {3});
  REQUIRE(floats.ok());
  CHECK(made_of({"file", {}, std::move(*floats)}).status().text().find("found f32[3], expected a file, or its bytes u8[n]") != std::string::npos);
}

TEST_CASE("a step says what it needs, and files of any kind go nowhere else") {
  const std::string part = R"({"of": "start", "within": 4, "strip": "none", "length": 2})";
  CHECK(problem(R"({"op": "file_bytes", "in": "file", "fill": 0, "parts": [)" + part + R"(], "out": "x"})").empty());
  CHECK(problem(R"({"op": "file_bytes", "in": "file", "parts": [)" + part + R"(], "out": "x"})").find("fill") != std::string::npos);
  CHECK(problem(R"({"op": "file_bytes", "in": "file", "fill": 0, "parts": [], "out": "x"})").find("is no list of 1 to 16 parts") != std::string::npos);
  CHECK(problem(R"({"op": "file_bytes", "in": "file", "fill": 0, "parts": [{"of": "middle", "within": 0, "strip": "all"}], "out": "x"})").find("length") != std::string::npos);
  std::string large;
  for (int k = 0; k < 2; ++k) large += (k ? ", " : "") + std::string(R"({"of": "end", "within": 4, "strip": "none", "length": 67108864})");
  CHECK(problem(R"({"op": "file_bytes", "in": "file", "fill": 0, "parts": [)" + large + R"(], "out": "x"})").find("are 134217728 bytes together") != std::string::npos);
  CHECK(problem(R"({"op": "file_bytes", "in": "file", "fill": 0, "least": 3, "parts": [)" + part + R"(], "out": "x"})").find("least") != std::string::npos);
  CHECK(problem(R"({"op": "decode_audio", "in": "file", "channels": "first", "rate": 8000, "out": "x"})").find("takes a file, 'file' is a file of any kind") != std::string::npos);
  const auto both = parse(R"({"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/octet-stream", "image/png"]}}, "steps": [], "outputs": []})", "p.json");
  CHECK(both.status().text().find("is both a file of any kind and a file to decode") != std::string::npos);
}

TEST_CASE("a class of which too little is certain has another label") {
  TopK step;
  step.k = 3, step.labels = "l.txt";
  step.unsure = TopK::Unsure{0.5, "unknown"};
  step.others = {{"b", {0.9, "text"}}, {"c", {0.25, "unknown"}}};
  const std::vector<std::string> labels{"a", "b", "c"};
  const float scores[] = {0.5F, 0.25F, 0.25F, 0.4F, 0.91F, 0.1F, std::numeric_limits<float>::quiet_NaN(), 0.89F, 0.2F};
  const auto tensor = HostTensor::from(DType::F32, {3, 3}, std::span<const float>(scores));
  AnswerBudget budget;
  const auto found = top_k(step, *tensor, labels, budget);
  REQUIRE(found.ok());
  const auto row = [&](size_t k) {
    std::string all;
    for (const Scored& s : found->rows[k]) all += std::to_string(s.index) + s.label + " ";
    return all;
  };
  CHECK(row(0) == "0a 1text 2c ");
  CHECK(row(1) == "1b 0unknown 2unknown ");
  CHECK(row(2) == "1text 2unknown 0unknown ");
}

TEST_CASE("what is unsure is said whole") {
  const auto read = [](const std::string& keys) {
    const std::string text = R"({"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/x-npy"]}}, "steps": [
      {"op": "run", "program": "main", "in": {"x": "file"}, "out": {"y": "y"}}, {"op": "top_k", "in": "y", "k": 1, )" + keys + R"(, "out": "z"}], "outputs": ["z"]})";
    return parse(text, "p.json");
  };
  const auto good = read(R"("labels": "l.txt", "unsure": {"below": 0.5, "label": "?", "others": {"a": {"below": 0.75}, "b": {"label": "!"}}})");
  REQUIRE_MESSAGE(good.ok(), good.status().text());
  const auto& step = std::get<TopK>(good->pipelines[0].steps[1].what);
  CHECK(step.others.at("a").label == "?");
  CHECK(step.others.at("a").below == 0.75);
  CHECK(step.others.at("b").below == 0.5);
  CHECK(read(R"("unsure": {"below": 0.5, "label": "?"})").status().text().find("has no meaning without 'labels'") != std::string::npos);
  CHECK(!read(R"("labels": "l.txt", "unsure": {"label": "?"})").ok());
  CHECK(!read(R"("labels": "l.txt", "unsure": {"below": 0.5, "label": "a\nb"})").ok());
  CHECK(!read(R"("labels": "l.txt", "unsure": {"below": 0.5, "label": "?", "others": {"a": 3}})").ok());
}
