// The steps between texts and numbers, and what a pipeline does with the bytes of a tokenizer.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "packager/text/compile_tokenizer.h"
#include "runtime/pipeline/host_pipeline.h"
#include "runtime/pipeline/host_steps.h"
#include "runtime/pipeline/reference/array_steps.h"
#include "tests/support/tokenizer_json.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

const std::vector<std::byte>& compiled() {
  static const auto bytes = text::compile_tokenizer(test::tokenizer_json(test::kWordPieceModel, test::kBertParts), "tokenizer.json");
  REQUIRE_MESSAGE(bytes.ok(), bytes.status().message);
  return *bytes;
}

text::Compiled opened(const std::vector<std::byte>& bytes) {
  auto tokenizer = text::Compiled::open(bytes);
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

Tokenize step_of(std::vector<Tokenize::Part> parts) {
  Tokenize step;
  step.tokenizer = "tokenizer.json";
  step.parts = std::move(parts);
  return step;
}

std::vector<int64_t> numbers(const HostTensor& t) { return {t.as<int64_t>().begin(), t.as<int64_t>().end()}; }
using Numbers = std::vector<int64_t>;
using Shape = std::vector<int64_t>;
constexpr auto kIds = Tokenize::Part::Ids, kMask = Tokenize::Part::Mask, kTypes = Tokenize::Part::TypeIds;

Result<std::vector<HostTensor>> tokens(const Tokenize& step, const std::vector<std::string>& texts, const io::DecodeLimits& limits = {}) {
  const std::vector<std::byte> bytes = compiled();
  return tokenize(step, opened(bytes), {"text", texts}, nullptr, limits);
}

constexpr const char* kPipeline = R"({"mlc_pipeline": 1, "inputs": {"text": {"accept": ["text/plain"]}}, "steps": [
  {"op": "tokenize", "in": "text", "tokenizer": "a.json", "special_tokens": true, "truncate": "none",
   "pad": {"to": "longest", "side": "right", "id": 0}, "out": {"ids": "ids"}},
  {"op": "run", "program": "main", "in": {"x": "ids"}, "out": {"y": "z"}},
  {"op": "detokenize", "in": "z", "tokenizer": "b.json", "skip_special": true, "out": "text out"}], "outputs": ["text out"]})";

Result<HostPipeline> host_with(const AssetLookup& lookup) {
  auto parsed = parse(kPipeline, "p.json");
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
  return HostPipeline::create(parsed->pipelines[0], lookup);
}

}  // namespace

TEST_CASE("texts of a batch are filled up to the longest, and the mask says where") {
  const auto made = tokens(step_of({kIds, kMask, kTypes}), {"unaffable", "", "a"});
  REQUIRE(made.ok());
  REQUIRE(made->size() == 3);
  CHECK((*made)[0].shape == Shape{3, 5});
  CHECK(numbers((*made)[0]) == Numbers{2, 4, 5, 6, 3, 2, 3, 0, 0, 0, 2, 9, 3, 0, 0});
  CHECK(numbers((*made)[1]) == Numbers{1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0});
  CHECK(numbers((*made)[2]) == Numbers(15, 0));
}

TEST_CASE("a step fills up on its side, with its token, to its length") {
  Tokenize step = step_of({kMask, kIds});
  step.truncates = true, step.max = 4, step.pad_to = 6, step.pad_left = true, step.pad_id = 8, step.cut_left = true;
  const auto made = tokens(step, {"unaffable"});
  REQUIRE(made.ok());
  CHECK(numbers((*made)[0]) == Numbers{0, 0, 1, 1, 1, 1});
  CHECK(numbers((*made)[1]) == Numbers{8, 8, 2, 5, 6, 3});
}

TEST_CASE("texts without any token have one place that the mask leaves out, no texts have no rows") {
  Tokenize step = step_of({kIds, kMask});
  step.special_tokens = false, step.pad_id = 7;
  const auto made = tokens(step, {"", ""});
  REQUIRE(made.ok());
  CHECK(numbers((*made)[0]) == Numbers{7, 7});
  CHECK(numbers((*made)[1]) == Numbers{0, 0});
  const auto none = tokens(step, {});
  REQUIRE(none.ok());
  CHECK((*none)[0].shape == Shape{0, 1});
}

TEST_CASE("what is no text, and pairs that are none, are the caller's mistake; texts too long for the memory are refused") {
  const auto wrong = tokens(step_of({kIds}), {"a", "a\xff"});
  REQUIRE(!wrong.ok());
  CHECK(wrong.status().code == Code::InputMismatch);
  CHECK(wrong.status().number == 4001);
  CHECK(wrong.status().text().find("byte 1 is wrong") != std::string::npos);
  const std::vector<std::byte> bytes = compiled();
  const std::vector<std::string> one{"a"}, two{"a", "a"};
  const TextList second{"context", two};
  const auto pair = tokenize(step_of({kIds}), opened(bytes), {"question", one}, &second);
  REQUIRE(!pair.ok());
  CHECK(pair.status().message == "'question' has 1 texts and 'context' 2: each text of one goes with one of the other");
  io::DecodeLimits small;
  small.memory = 1 << 16;
  const auto large = tokens(step_of({kIds}), {std::string(100'000, 'a')}, small);
  REQUIRE(!large.ok());
  CHECK(large.status().code == Code::Resource);
}

TEST_CASE("numbers become text, and those that are no token add nothing") {
  const std::vector<std::byte> bytes = compiled();
  const int64_t ids[] = {3, 4, 5, 6, 3, 9, 100, -1, INT64_MAX, 1 << 30};
  const auto tensor = HostTensor::from(DType::I64, {2, 5}, std::span<const int64_t>(ids));
  AnswerBudget budget;
  const auto made = detokenize({"t", true}, opened(bytes), *tensor, budget);
  REQUIRE(made.ok());
  REQUIRE(made->lines.size() == 2);
  CHECK(made->lines[0].text == "unaffable");
  CHECK(made->lines[1].text == "a");
  CHECK(!made->lines[0].score);
  AnswerBudget little(64);
  CHECK(!detokenize({"t", true}, opened(bytes), *tensor, little).ok());
  const float values[] = {1, 2};
  const auto floats = HostTensor::from(DType::F32, {2}, std::span<const float>(values));
  CHECK(detokenize({"t", true}, opened(bytes), *floats, budget).status().message.find("takes integers") != std::string::npos);
}

TEST_CASE("a tokenizer whose bytes were changed is refused or stays inside of them") {
  const std::vector<std::byte> good = compiled();
  CHECK(host_with([&](std::string_view) -> Result<Bytes> { return Bytes(good); }).ok());
  const auto cut = host_with([&](std::string_view name) -> Result<Bytes> { return Bytes(good).first(name == "b.json" ? good.size() / 2 : good.size()); });
  REQUIRE(!cut.ok());
  CHECK(cut.status().text().find("asset 'b.json'") != std::string::npos);
  CHECK(!host_with([&](std::string_view) -> Result<Bytes> { return Bytes(); }).ok());
  for (size_t at = 0; at < good.size(); at += at < 400 ? 1 : 37) {
    std::vector<std::byte> changed = good;
    changed[at] ^= std::byte{0x41};
    const auto host = host_with([&](std::string_view) -> Result<Bytes> { return Bytes(changed); });
    if (!host.ok()) continue;
    std::vector<GivenInput> given;
    given.push_back({"text", {}, HostTensor::of_strings({1}, {"unaffable, caf\u00e9 a"})});
    const auto made = host->before(std::move(given));
    if (made.ok()) CHECK((*made)[0].tensor.shape[0] == 1);
    else CHECK(!made.status().message.empty());
  }
}

TEST_CASE("all tokenizers of a pipeline are bounded together") {
  const std::vector<std::byte> good = compiled(), large(text::kMaxCompiledLen);
  const auto host = host_with([&](std::string_view name) -> Result<Bytes> { return name == "a.json" ? Bytes(good) : Bytes(large); });
  REQUIRE(!host.ok());
  CHECK(host.status().message == "the tokenizers of a pipeline have more than 268435456 bytes in all");
  const auto within = host_with([&](std::string_view name) -> Result<Bytes> { return name == "a.json" ? Bytes(good) : Bytes(large).first(large.size() - good.size()); });
  CHECK(within.status().message != host.status().message);
}

TEST_CASE("what is given for texts is a text, a list of texts or a file") {
  const std::vector<std::byte> good = compiled();
  auto host = host_with([&](std::string_view) -> Result<Bytes> { return Bytes(good); });
  REQUIRE(host.ok());
  const std::string file = "\xef\xbb\xbfunaffable";
  std::vector<GivenInput> given;
  given.push_back({"", {reinterpret_cast<const std::byte*>(file.data()), file.size()}, std::nullopt});
  const auto made = host->before(std::move(given));
  REQUIRE_MESSAGE(made.ok(), made.status().text());
  CHECK(numbers((*made)[0].tensor) == Numbers{2, 4, 5, 6, 3});
  given.clear();
  auto zeros = HostTensor::zeros(DType::I64, {2});
  REQUIRE(zeros.ok());
  given.push_back({"text", {}, std::move(zeros).value()});
  CHECK(host->before(std::move(given)).status().text().find("found i64[2], expected a text or a list of texts") != std::string::npos);
}

TEST_CASE("pooling leaves out what the mask does, in the reference") {
  const float values[] = {1, 2, 3, 4, 5, 60, 7, 8, 9, 10, 11, 12};
  const int64_t kept[] = {1, 1, 0, 0, 0, 0};
  const auto in = HostTensor::from(DType::F32, {2, 3, 2}, std::span<const float>(values));
  const auto mask = HostTensor::from(DType::I64, {2, 3}, std::span<const int64_t>(kept));
  const auto pooled = [&](Pool::How how) {
    const auto made = reference::pool({how}, *in, *mask);
    REQUIRE(made.ok());
    return std::vector<float>(made->as<float>().begin(), made->as<float>().end());
  };
  CHECK(pooled(Pool::How::Mean) == std::vector<float>{2, 3, 0, 0});
  CHECK(pooled(Pool::How::MeanSqrtLen) == std::vector<float>{static_cast<float>(4 / std::sqrt(2.0)), static_cast<float>(6 / std::sqrt(2.0)), 0, 0});
  CHECK(pooled(Pool::How::WeightedMean) == std::vector<float>{static_cast<float>(7 / 3.0), static_cast<float>(10 / 3.0), 0, 0});
  CHECK(pooled(Pool::How::Max) == std::vector<float>{3, 4, 0, 0});
  CHECK(pooled(Pool::How::First) == std::vector<float>{1, 2, 0, 0});
  CHECK(pooled(Pool::How::Last) == std::vector<float>{3, 4, 0, 0});
}

TEST_CASE("a long text becomes windows that overlap, and each says of which text it is and where its tokens stand") {
  Tokenize step = step_of({kIds, kMask, Tokenize::Part::Texts, Tokenize::Part::Offsets, Tokenize::Part::Positions});
  step.truncates = step.overlaps = true, step.max = 4, step.stride = 1;
  const auto made = tokens(step, {"a a unaffable", "", "a"});
  REQUIRE_MESSAGE(made.ok(), made.status().text());
  CHECK((*made)[0].shape == Shape{6, 4});
  CHECK(numbers((*made)[0]) == Numbers{2, 9, 9, 3, 2, 9, 4, 3, 2, 4, 5, 3, 2, 5, 6, 3, 2, 3, 0, 0, 2, 9, 3, 0});
  CHECK(numbers((*made)[1]) == Numbers{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0});
  CHECK((*made)[2].shape == Shape{6});
  CHECK(numbers((*made)[2]) == Numbers{0, 0, 0, 0, 1, 2});
  CHECK((*made)[3].shape == Shape{6, 4, 2});
  CHECK(Numbers(numbers((*made)[3])).size() == 48);
  CHECK(std::vector<int64_t>((*made)[3].as<int64_t>().begin(), (*made)[3].as<int64_t>().begin() + 16) == Numbers{0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 2, 3, 4, 6, 0, 0});
  CHECK(numbers((*made)[4]) == Numbers{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 0, 0, 1, 2, 0});
  step.max = 2, step.stride = 0;
  CHECK(tokens(step, {"a a"}).status().text().find("the length is 2, which leaves no token of a text for its parts") != std::string::npos);
  step.max = 4, step.stride = 2;
  CHECK(tokens(step, {"a a a"}).status().text().find("the stride is 2, expected less than the 2 tokens that remain of a text") != std::string::npos);
  CHECK(tokens(step, {"a a"}).ok());
  io::DecodeLimits small;
  small.memory = 1 << 20;
  std::string many;
  for (int k = 0; k < 500; ++k) many += "a ";
  step.max = 400, step.stride = 397;
  CHECK(tokens(step, {many}, small).status().code == Code::Resource);
}

TEST_CASE("without windows each row is its own text") {
  const auto made = tokens(step_of({kIds, Tokenize::Part::Texts}), {"a", "", "a a"});
  REQUIRE(made.ok());
  CHECK(numbers((*made)[1]) == Numbers{0, 1, 2});
}

TEST_CASE("rows of windows become one row of each text") {
  const float values[] = {1, 2, 3, 4, 5, 9, NAN, 7, 8, 1, 2, 3};
  const int64_t texts[] = {0, 0, 1, 2, 2, 2};
  const auto rows = HostTensor::from(DType::F32, {6, 2, 1}, std::span<const float>(values));
  const auto of = HostTensor::from(DType::I64, {6}, std::span<const int64_t>(texts));
  AnswerBudget budget;
  const auto joined = [&](JoinWindows::How how) {
    const auto made = join_windows({how}, *rows, *of, budget);
    REQUIRE_MESSAGE(made.ok(), made.status().text());
    CHECK(made->shape == Shape{3, 2, 1});
    return std::vector<float>(made->as<float>().begin(), made->as<float>().end());
  };
  const std::vector<float> mean = joined(JoinWindows::How::Mean), most = joined(JoinWindows::How::Max);
  CHECK(std::vector<float>(mean.begin(), mean.begin() + 4) == std::vector<float>{2, 3, 5, 9});
  CHECK(std::isnan(mean[4]));
  CHECK(mean[5] == static_cast<float>(11 / 3.0));
  CHECK(std::vector<float>(most.begin(), most.begin() + 4) == std::vector<float>{3, 4, 5, 9});
  CHECK(std::isnan(most[4]));
  CHECK(most[5] == 7);
  const int64_t wrong[] = {0, 2, 2, 2, 2, 2};
  const auto gap = HostTensor::from(DType::I64, {6}, std::span<const int64_t>(wrong));
  CHECK(join_windows({}, *rows, *gap, budget).status().message == "step 'join_windows': window 1 is of text 2, and the one before it of 0");
  const auto few = HostTensor::from(DType::I64, {5}, std::span<const int64_t>(texts, 5));
  CHECK(join_windows({}, *rows, *few, budget).status().message.find("takes f32 [windows, ...] and the number of each window's text") != std::string::npos);
  AnswerBudget little(8);
  CHECK(join_windows({}, *rows, *of, little).status().code == Code::Resource);
}
