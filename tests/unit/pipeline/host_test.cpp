// Host steps, and whole pipelines around a model.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/io/file.h"
#include "runtime/io/npz.h"
#include "runtime/pipeline/host_pipeline.h"
#include "runtime/pipeline/host_steps.h"
#include "runtime/pipeline/reference/array_steps.h"
#include "schema/pipeline/lines.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

HostTensor floats(std::vector<int64_t> shape, std::vector<float> values) {
  auto t = HostTensor::from(DType::F32, std::move(shape), std::span<const float>(values));
  REQUIRE(t.ok());
  return std::move(t).value();
}

Bytes bytes_of_text(std::string_view s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }

std::string text_of(const std::string& path) {
  auto file = io::read_file(path);
  REQUIRE_MESSAGE(file.ok(), path);
  return {reinterpret_cast<const char*>(file->data()), file->size()};
}

// The pipeline of an example, with its assets read from its folder.
HostPipeline example(const std::string& folder) {
  auto parsed = parse(text_of(folder + "/pipeline.json"), "pipeline.json");
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
  std::string asset;
  auto host = HostPipeline::create(parsed->pipelines[0], [&](std::string_view name) -> Result<Bytes> {
    asset = text_of(folder + "/" + std::string(name));
    return bytes_of_text(asset);
  });
  REQUIRE_MESSAGE(host.ok(), host.status().text());
  return std::move(host).value();
}

}  // namespace

TEST_CASE("the best come first, ties by index, NaN last") {
  std::vector<std::string> labels = {"a", "b", "c", "d", "e"};
  TopK step{4, "labels.txt", 0};
  AnswerBudget budget;
  auto best = top_k(step, floats({1, 5}, {2, 7, std::nanf(""), 7, -1}), labels, budget);
  REQUIRE(best.ok());
  REQUIRE(best->rows.size() == 1);
  REQUIRE(best->rows[0].size() == 4);
  CHECK(best->rows[0][0].label == "b");
  CHECK(best->rows[0][1].label == "d");
  CHECK(best->rows[0][2].index == 0);
  CHECK(best->rows[0][3].index == 4);
  CHECK(best->rows[0][0].score == 7);
  CHECK(top_k({9, "", 0}, floats({2, 1, 3}, {1, 2, 3, 6, 5, 4}), {}, budget)->rows[1].size() == 3);
  CHECK(!top_k({1, "", 0}, floats({2, 0}, {}), {}, budget).ok());
}

TEST_CASE("half floats are scores too") {
  uint16_t half[] = {0x3C00, 0xC000, 0x0001, 0x7C00};  // 1, -2, 2^-24, infinity
  auto t = HostTensor::from(DType::F16, {4}, std::span<const uint16_t>(half));
  AnswerBudget budget;
  auto best = top_k({4, "", 0}, *t, {}, budget);
  REQUIRE(best.ok());
  CHECK(std::isinf(best->rows[0][0].score));
  CHECK(best->rows[0][1].score == 1);
  CHECK(best->rows[0][2].score == std::ldexp(1.0, -24));
  CHECK(best->rows[0][3].score == -2);
  uint16_t brain[] = {0x3F80, 0xC000};
  auto b = HostTensor::from(DType::BF16, {2}, std::span<const uint16_t>(brain));
  CHECK(top_k({1, "", 0}, *b, {}, budget)->rows[0][0].score == 1);
}

TEST_CASE("a list of labels has as many lines as there are columns, or an offset says why not") {
  std::vector<std::string> labels = {"background", "x", "y"};
  auto two = floats({2}, {0, 1});
  AnswerBudget budget;
  auto wrong = top_k({1, "labels.txt", 0}, two, labels, budget);
  REQUIRE(!wrong.ok());
  CHECK(wrong.status().number == 5003);
  CHECK(wrong.status().help.find("\"label_offset\": 1") != std::string::npos);
  auto right = top_k({1, "labels.txt", 1}, two, labels, budget);
  REQUIRE(right.ok());
  CHECK(right->rows[0][0].label == "y");
  // A model with a background column that the list lacks.
  auto fewer = top_k({3, "labels.txt", -1}, floats({4}, {9, 1, 2, 3}), labels, budget);
  REQUIRE(fewer.ok());
  CHECK(fewer->rows[0][0].label.empty());
  CHECK(fewer->rows[0][1].label == "y");
  CHECK(!top_k({1, "labels.txt", -5}, floats({1}, {1}), {}, budget).ok());
}

TEST_CASE("CTC merges equal neighbours, drops blanks, and averages what it kept") {
  std::vector<std::string> charset = {"a", "b"};
  CtcGreedy step{0, "charset.txt", true};
  //            a         a         blank     a         b         space     b
  auto scores = floats(
      {1, 7, 4}, {0, .9f, 0, 0, 0, .8f, 0, 0, 1, 0, 0, 0, 0, .5f, 0, 0, 0, 0, .7f, 0, 0, 0, 0, 1, .1f, 0, .6f, 0});
  AnswerBudget budget;
  auto text = ctc_greedy(step, scores, charset, budget);
  REQUIRE(text.ok());
  REQUIRE(text->lines.size() == 1);
  CHECK(text->lines[0].text == "aab b");
  CHECK(text->lines[0].score == doctest::Approx((.9f + .5f + .7f + 1.0 + .6f) / 5));
  CHECK(ctc_greedy({3, "c", true}, floats({2, 4}, {1, 0, 0, 0, 0, 0, 1, 0}), charset, budget)->lines[0].text == "a ");
  CHECK(ctc_greedy(step, floats({1, 0, 4}, {}), charset, budget)->lines[0].text.empty());
  auto wrong = ctc_greedy({0, "charset.txt", false}, scores, charset, budget);
  REQUIRE(!wrong.ok());
  CHECK(wrong.status().number == 5003);
  CHECK(!ctc_greedy({4, "charset.txt", true}, scores, charset, budget).ok());
}

TEST_CASE("lists are valid UTF-8, one entry per line, otherwise unchanged") {
  auto lines = split_lines(bytes_of_text("\xEF\xBB\xBF" "a\r\n\xE3\x80\x80\n b \n\n\xE7\x96\x97"), "list");
  REQUIRE(lines.ok());
  CHECK(*lines == std::vector<std::string>{"a", "\xE3\x80\x80", " b ", "", "\xE7\x96\x97"});
  CHECK(split_lines({}, "list")->empty());
  CHECK(split_lines(bytes_of_text("a\n"), "list")->size() == 1);
  for (std::string_view bad :
       {"a\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE7\x96", "a\x1B[31m", "a\rb"}) {
    CAPTURE(bad);
    CHECK(!split_lines(bytes_of_text(bad), "list").ok());
  }
  CHECK(split_lines(bytes_of_text("ab\xFF"), "labels.txt").status().message == "labels.txt: not valid UTF-8 at byte 2");
}

namespace {

// A container whose programs give these, whatever they are given.
Programs giving(const std::vector<NamedTensor>& results) {
  Programs programs;
  programs.run = [&results](const std::string&, const std::vector<NamedTensor>&) -> Result<std::vector<NamedTensor>> {
    std::vector<NamedTensor> copies;
    for (const NamedTensor& t : results) copies.push_back({t.name, t.tensor.clone().value()});
    return copies;
  };
  return programs;
}

// What decoders of the examples make of a picture.
std::vector<NamedTensor> pixels() {
  std::vector<NamedTensor> made;
  for (const char* name : {"steps[0]", "pixels", "rgb", "gray"}) made.push_back({name, HostTensor::zeros(DType::U8, {1, 1, 1}).value()});
  return made;
}

}  // namespace

TEST_CASE("the digits pipeline prepares its images and names the answer") {
  HostPipeline host = example(mlc::testing::source_path("examples/digits"));
  for (const char* name : {"plain_7.png", "photo_3.jpg", "transparent_5.png", "dark_8.png", "turned_2.jpg"}) {
    CAPTURE(name);
    auto file = io::read_file(mlc::testing::source_path("examples/digits/images/") + name);
    REQUIRE(file.ok());
    std::vector<GivenInput> given(1);
    given[0].file = file->bytes();
    auto values = host.before(std::move(given));
    REQUIRE_MESSAGE(values.ok(), values.status().text());
    REQUIRE(values->size() == 1);
    CHECK((*values)[0].tensor.shape.back() == 1);
    REQUIRE(reference::run_array_steps(host.description(), *values).ok());
    const NamedTensor& x = values->back();
    CHECK(x.name == "x");
    CHECK(x.tensor.dtype == DType::F32);
    CHECK(x.tensor.shape == std::vector<int64_t>{1, 1, 28, 28});
    for (float v : x.tensor.as<float>()) CHECK((v >= 0 && v <= 1));
  }
  std::vector<NamedTensor> values;
  values.push_back({"logits", floats({1, 10}, {0, 0, 0, 0, 0, 0, 0, 5, 0, 1})});
  REQUIRE(reference::run_array_steps(host.description(), values).ok());
  AnswerBudget budget;
  auto answers = host.run(pixels(), {}, budget, giving(values));
  REQUIRE_MESSAGE(answers.ok(), answers.status().text());
  REQUIRE(answers->size() == 1);
  CHECK((*answers)[0].name == "digits");
  const auto& rows = std::get<Classes>((*answers)[0].value).rows;
  CHECK(rows[0].size() == 3);
  CHECK(rows[0][0].label == "7");
  CHECK(rows[0][0].score == doctest::Approx(std::exp(5.0) / (std::exp(5.0) + std::exp(1.0) + 8)));
  CHECK(rows[0][1].label == "9");
}

TEST_CASE("a picture may be given as its decoder would give it, and as nothing else") {
  HostPipeline host = example(mlc::testing::source_path("examples/digits"));
  const auto before = [&](DType dtype, std::vector<int64_t> shape) {
    std::vector<GivenInput> given(1);
    auto tensor = HostTensor::zeros(dtype, std::move(shape));
    REQUIRE(tensor.ok());
    if (tensor->data.size() > 5) tensor->data.data()[5] = std::byte{7};
    given[0].tensor = std::move(*tensor);
    return host.before(std::move(given));
  };
  const auto values = before(DType::U8, {40, 30, 1});
  REQUIRE_MESSAGE(values.ok(), values.status().text());
  REQUIRE(values->size() == 1);
  CHECK((*values)[0].tensor.shape == std::vector<int64_t>{40, 30, 1});
  CHECK((*values)[0].tensor.as<uint8_t>()[5] == 7);
  const auto wrong = before(DType::U8, {40, 30, 3});
  REQUIRE(!wrong.ok());
  CHECK(wrong.status().number == 4001);
  REQUIRE(wrong.status().facts.size() == 1);
  CHECK(wrong.status().facts[0] == "picture   found u8[40,30,3], expected image/png, image/jpeg, or u8[height,width,1]");
  CHECK(!before(DType::U8, {40, 30}).ok());
  CHECK(!before(DType::F32, {40, 30, 1}).ok());
}

TEST_CASE("the samples of a sound may be given in place of its file, and become what the file becomes") {
  const auto host_of = [](const std::string& channels) {
    auto parsed = parse(R"({"mlc_pipeline":1,"inputs":{"speech":{"accept":["audio/wav"]}},"steps":[{"op":"decode_audio","in":"speech","channels":")" + channels +
                            R"(","rate":100,"out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{"y":"y"}}],"outputs":["y"]})",
                        "p.json");
    REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
    auto host = HostPipeline::create(parsed->pipelines[0], [](std::string_view) -> Result<Bytes> { return Bytes(); });
    REQUIRE(host.ok());
    return std::move(*host);
  };
  const std::vector<int16_t> pcm = {-32768, 32767, 1, -1, 12345, 77};
  const auto array_of = [&](DType dtype, std::vector<int64_t> shape) {
    auto t = HostTensor::zeros(dtype, std::move(shape));
    REQUIRE(t.ok());
    for (size_t i = 0; i < pcm.size() && t->elements() == 6; ++i) {
      if (dtype == DType::I16) t->as<int16_t>()[i] = pcm[i];
      if (dtype == DType::F32) t->as<float>()[i] = static_cast<float>(pcm[i]) / 32768;
      if (dtype == DType::F64) t->as<double>()[i] = pcm[i] / 32768.0;
    }
    return std::move(*t);
  };
  const auto of = [](const HostPipeline& host, HostTensor array, const io::DecodeLimits& limits = {}) {
    std::vector<GivenInput> given(1);
    given[0].tensor = std::move(array);
    return host.before(std::move(given), limits);
  };
  for (const std::string channels : {"first", "mean", "keep"})
    for (const int64_t count : {1, 2, 3}) {
      CAPTURE(channels);
      CAPTURE(count);
      const HostPipeline host = host_of(channels);
      CHECK(host.rate_of("speech") == 100u);
      CHECK(!host.rate_of("other"));
      auto file = io::wav_header(12, count, 100);
      REQUIRE(file.ok());
      const auto* bytes = reinterpret_cast<const std::byte*>(pcm.data());
      file->insert(file->end(), bytes, bytes + 12);
      std::vector<GivenInput> given(1);
      given[0].file = *file;
      const auto want = host.before(std::move(given));
      REQUIRE_MESSAGE(want.ok(), want.status().text());
      const auto samples = (*want)[0].tensor.as<float>();
      std::vector<std::vector<int64_t>> shapes = {{6 / count, count}};
      if (count == 1) shapes.push_back({6});
      for (const DType dtype : {DType::I16, DType::F32, DType::F64})
        for (const auto& shape : shapes) {
          const auto found = of(host, array_of(dtype, shape));
          REQUIRE_MESSAGE(found.ok(), found.status().text());
          CHECK((*found)[0].name == "x");
          CHECK((*found)[0].tensor.shape == (*want)[0].tensor.shape);
          CHECK(std::ranges::equal((*found)[0].tensor.as<float>(), samples));
        }
    }
  const HostPipeline host = host_of("first");
  HostTensor no_number = array_of(DType::F32, {6});
  no_number.as<float>()[2] = std::nanf("");
  const auto kept = of(host, std::move(no_number));
  REQUIRE(kept.ok());
  CHECK(std::isnan((*kept)[0].tensor.as<float>()[2]));
  const auto none = of(host, array_of(DType::F32, {0}));
  REQUIRE(none.ok());
  CHECK((*none)[0].tensor.shape == std::vector<int64_t>{0});
  const std::vector<std::pair<DType, std::vector<int64_t>>> refused = {
      {DType::I32, {6}}, {DType::U8, {6}}, {DType::F16, {6}}, {DType::F32, {}}, {DType::F32, {1, 6, 1}}, {DType::F32, {6, 0}}, {DType::F32, {2, 65}}};
  for (const auto& [dtype, shape] : refused) {
    const auto wrong = of(host, array_of(dtype, shape));
    REQUIRE(!wrong.ok());
    CHECK(wrong.status().number == 4001);
    CHECK(wrong.status().facts[0] == "speech   found " + type_text(dtype, shape) +
                                         ", expected audio/wav, or samples, f32, f64 or i16: [samples] or [samples,channels] with at most 64 channels");
  }
  const auto large = of(host, array_of(DType::F32, {1000}), {.memory = 100, .all = true});
  REQUIRE(!large.ok());
  CHECK(large.status().code == Code::Resource);
}

TEST_CASE("decoders of a pipeline keep to the limit that they are given") {
  HostPipeline host = example(mlc::testing::source_path("examples/digits"));
  const auto file = io::read_file(mlc::testing::source_path("examples/digits/images/plain_7.png"));
  REQUIRE(file.ok());
  const auto decoded = [&](const io::DecodeLimits& limits) {
    std::vector<GivenInput> given(1);
    given[0].file = file->bytes();
    return host.before(std::move(given), limits);
  };
  CHECK(decoded({.memory = 1 << 20, .all = true}).ok());
  const auto refused = decoded({.memory = 100, .all = true});
  REQUIRE(!refused.ok());
  CHECK(refused.status().code == Code::Resource);
}

TEST_CASE("steps that decode one input alike share what it decodes to, and forms of it count together") {
  const auto file = io::read_file(mlc::testing::source_path("examples/digits/images/plain_7.png"));
  REQUIRE(file.ok());
  // `colors`: of the steps; the program takes what each gives.
  const auto decoded = [&](const std::vector<std::string>& colors, const io::DecodeLimits& limits) {
    std::string steps, taken;
    for (size_t k = 0; k < colors.size(); ++k) {
      const std::string number = std::to_string(k);
      steps += R"({"op":"decode_image","in":"photo","color":")" + colors[k] + R"(","orient":"ignore","alpha":"drop",)" + (colors[k] == "gray" ? R"("like":"pillow",)" : "") +
               R"("out":"d)" + number + "\"},";
      taken += (k ? "," : "") + std::string("\"i") + number + "\":\"d" + number + "\"";
    }
    auto parsed = parse(R"({"mlc_pipeline":1,"inputs":{"photo":{"accept":["image/png"]}},"steps":[)" + steps + R"({"op":"run","program":"main","in":{)" + taken +
                            R"(},"out":{"y":"y"}}],"outputs":["y"]})",
                        "p.json");
    REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
    auto host = HostPipeline::create(parsed->pipelines[0], [](std::string_view) -> Result<Bytes> { return Bytes(); });
    REQUIRE(host.ok());
    std::vector<GivenInput> given(1);
    given[0].file = file->bytes();
    return host->before(std::move(given), limits);
  };
  const auto one = decoded({"rgb"}, {});
  REQUIRE(one.ok());
  // The least that one step wants.
  uint64_t least = 1, most = uint64_t{1} << 28;
  while (least < most) {
    const uint64_t between = least + (most - least) / 2;
    if (decoded({"rgb"}, {.memory = between, .together = true}).ok()) most = between;
    else least = between + 1;
  }
  const auto many = decoded(std::vector<std::string>(300, "rgb"), {.memory = least, .together = true});
  REQUIRE_MESSAGE(many.ok(), many.status().text());
  REQUIRE(many->size() == 300);
  for (const NamedTensor& t : *many) {
    CHECK(t.tensor.data.data() == (*many)[0].tensor.data.data());
    CHECK(t.tensor.shape == (*one)[0].tensor.shape);
  }
  CHECK(std::equal((*one)[0].tensor.data.bytes().begin(), (*one)[0].tensor.data.bytes().end(), (*many)[299].tensor.data.bytes().begin()));
  const uint64_t picture = (*one)[0].tensor.data.size();
  CHECK(decoded({"rgb", "bgr"}, {.memory = least}).ok());  // each for itself
  CHECK(decoded({"rgb", "bgr"}, {.memory = least, .together = true}).status().code == Code::Resource);
  CHECK(decoded({"rgb", "bgr", "rgb"}, {.memory = least + picture, .together = true}).ok());
  CHECK(decoded({"rgb", "bgr", "gray"}, {.memory = least + picture - 1, .together = true}).status().code == Code::Resource);
}

TEST_CASE("what steps answer is paid for by all of them together") {
  const auto scores = floats({3, 4}, {1, 2, 3, 4, 4, 3, 2, 1, 1, 4, 2, 3});
  const std::vector<std::string> labels{"a", "bb", "ccc", "dddd"};
  const uint64_t price = 3 * (sizeof(std::vector<Scored>) + 2 * sizeof(Scored)) + 4 + 3 + 1 + 2 + 2 + 4;
  AnswerBudget twice(2 * price);
  for (const bool fits : {true, true, false}) {
    const auto best = top_k({2, "labels", 0}, scores, labels, twice);
    CHECK(best.ok() == fits);
    if (!fits) CHECK((best.status().code == Code::Resource && best.status().number == 6006));
  }
  AnswerBudget less(price - 1);
  CHECK(!top_k({2, "labels", 0}, scores, labels, less).ok());
  // All of many columns are refused before one row is made.
  auto many = HostTensor::zeros(DType::F16, {1 << 10, 1 << 12});
  REQUIRE(many.ok());
  AnswerBudget untrusted = AnswerBudget::of_untrusted();
  CHECK(top_k({1 << 12, "", 0}, *many, {}, untrusted).status().number == 6006);
  // Looking is counted too: each score as often as the number of those that are kept has digits.
  const auto small = floats({1, 4}, {1, 2, 3, 4});
  AnswerBudget looks(1 << 20, 4 * 1 + 4 * 3 + 3);
  CHECK(top_k({1, "", 0}, small, {}, looks).ok());
  CHECK(top_k({4, "", 0}, small, {}, looks).ok());
  CHECK(top_k({1, "", 0}, small, {}, looks).ok() == false);

  const std::vector<std::string> charset{std::string(1000, 'x'), "y"};
  const auto steps = floats({1, 4, 3}, {0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1});  // x, blank, x, y
  AnswerBudget enough(sizeof(Line) + 2001), short_of_one(sizeof(Line) + 2000);
  CHECK(ctc_greedy({0, "charset", false}, steps, charset, enough)->lines[0].text.size() == 2001);
  CHECK(ctc_greedy({0, "charset", false}, steps, charset, short_of_one).status().number == 6006);
}

TEST_CASE("all lists of a pipeline are bounded together") {
  std::string steps;
  for (int i = 0; i < 3; ++i)
    steps += R"(,{"op":"top_k","k":1,"in":"y","labels":"list)" + std::to_string(i) + R"(","out":"t)" + std::to_string(i) + "\"}";
  auto parsed = parse(
      R"({"mlc_pipeline":1,"inputs":{"x":{"accept":["application/x-npy"]}},"steps":[{"op":"sigmoid","in":"x","out":"y"})" +
          steps + R"(],"outputs":["t0","t1","t2"]})",
      "p.json");
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
  const auto created = [&](const std::string& list) {
    return HostPipeline::create(parsed->pipelines[0], [&](std::string_view) -> Result<Bytes> { return bytes_of_text(list); });
  };
  CHECK(created(std::string(kMaxLines / 3, '\n')).ok());
  auto lines = created(std::string(kMaxLines / 3 + 1, '\n'));
  REQUIRE(!lines.ok());
  CHECK(lines.status().message.find("1048576 lines in all") != std::string::npos);
  CHECK(created(std::string(kMaxListBytes / 3, 'a')).ok());
  CHECK(!created(std::string(kMaxListBytes / 3 + 1, 'a')).ok());
}

TEST_CASE("inputs that do not fit are reported all at once") {
  auto parsed = parse(
      R"({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/jpeg"]}, "mask": {"accept": ["application/x-npy"]}},
    "steps": [{"op": "decode_image", "in": "photo", "color": "rgb", "orient": "exif", "alpha": "drop", "out": "p"},
              {"op": "run", "program": "main", "in": {"a": "p", "b": "mask"}, "out": {"y": "y"}}], "outputs": ["y"]})",
      "p.json");
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
  auto host = HostPipeline::create(parsed->pipelines[0], [](std::string_view) -> Result<Bytes> { return Bytes(); });
  REQUIRE(host.ok());
  std::vector<GivenInput> given(2);
  given[0].name = "photo";
  given[0].file = bytes_of_text("<!DOCTYPE html>");
  given[1].name = "phtoo";
  auto wrong = host->before(std::move(given));
  REQUIRE(!wrong.ok());
  CHECK(wrong.status().number == 4001);
  CHECK(wrong.status().code == Code::InputMismatch);
  REQUIRE(wrong.status().facts.size() == 3);
  CHECK(wrong.status().facts[0] == "'phtoo' is no input of the pipeline");
  CHECK(wrong.status().facts[1] == "photo   found a web page, expected image/jpeg");
  CHECK(wrong.status().facts[2] == "mask   missing, expected application/x-npy");
  CHECK(sections(host->description())[1].in.size() == 2);
  AnswerBudget budget;
  CHECK(host->run({}, {}, budget, {}).status().code == Code::Internal);
}

// Needs the shared models; PP-OCR's recorded outputs stand in for the model.
TEST_CASE("the OCR pipeline reads the recorded line" *
          doctest::skip(std::fopen(mlc::testing::source_path("../shared/models/text_line.png").c_str(), "rb") == nullptr)) {
  const std::string models = mlc::testing::source_path("../shared/models");
  HostPipeline host = example(mlc::testing::source_path("examples/ocr"));
  auto image = io::read_file(models + "/text_line.png");
  auto archive = io::read_file(models + "/expected/ppocr_v4_rec.text_line.npz");
  REQUIRE((image.ok() && archive.ok()));
  auto recorded = io::parse_npz(archive->bytes());
  REQUIRE(recorded.ok());
  std::vector<GivenInput> given(1);
  given[0].file = image->bytes();
  auto values = host.before(std::move(given));
  REQUIRE(values.ok());
  REQUIRE(reference::run_array_steps(host.description(), *values).ok());
  for (auto& r : *recorded) {
    if (r.name == "in:x") {
      CHECK(values->back().tensor.shape == r.tensor.shape);
      float largest = 0;
      for (size_t i = 0; i < r.tensor.as<float>().size(); ++i)
        largest = std::max(largest, std::abs(values->back().tensor.as<float>()[i] - r.tensor.as<float>()[i]));
      CHECK(largest <= 1e-6f);
    }
    if (r.name == "out:softmax_11.tmp_0") {
      std::vector<NamedTensor> out;
      out.push_back({"probabilities", std::move(r.tensor)});
      AnswerBudget budget;
      auto answers = host.run(pixels(), {}, budget, giving(out));
      REQUIRE_MESSAGE(answers.ok(), answers.status().text());
      CHECK(std::get<Text>((*answers)[0].value).lines[0].text == "PORTABLE MODELS 2026");
    }
  }
}
