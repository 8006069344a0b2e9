// Texts of like length run together: how they are divided, and what comes of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "packager/text/compile_tokenizer.h"
#include "runtime/pipeline/host_pipeline.h"
#include "runtime/pipeline/row_groups.h"
#include "tests/support/tokenizer_json.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

int64_t cost_of(const std::vector<RowGroup>& groups, const RowRuns& runs) {
  int64_t cost = 0;
  for (const RowGroup& g : groups) cost += static_cast<int64_t>(g.rows.size()) * g.length + runs.run_tokens;
  return cost;
}

// Of all divisions of the sorted lengths.
int64_t least_cost(std::vector<int64_t> lengths, const RowRuns& runs) {
  std::sort(lengths.begin(), lengths.end());
  std::vector<int64_t> least(lengths.size() + 1, INT64_MAX);
  least[0] = 0;
  for (size_t end = 1; end <= lengths.size(); ++end)
    for (size_t begin = 0; begin < end; ++begin)
      least[end] = std::min(least[end], least[begin] + static_cast<int64_t>(end - begin) * std::max<int64_t>(1, lengths[end - 1]) + runs.run_tokens);
  return least.back();
}

std::string piped(const std::string& pad_to, const std::string& side, const std::string& model_in, const std::string& outputs) {
  return R"({"mlc_pipeline": 1, "inputs": {"text": {"accept": ["text/plain"]}, "bias": {"accept": ["application/x-npy"]}}, "steps": [
    {"op": "tokenize", "in": "text", "tokenizer": "t.json", "special_tokens": true, "truncate": "none",
     "pad": {"to": ")" + pad_to + R"(", "side": ")" + side + R"(", "id": 0}, "out": {"ids": "ids", "mask": "mask"}},
    {"op": "run", "program": "main", "in": {)" + model_in + R"(}, "out": {"y": "sums"}}], "outputs": [)" + outputs + "]}";
}

std::string without_bias(std::string text) {
  const std::string bias = R"(, "bias": {"accept": ["application/x-npy"]})";
  return text.erase(text.find(bias), bias.size());
}

// A program that gives the sum of the ids of each row that the mask keeps, and the row's length.
struct Sums {
  RowRuns runs;
  std::vector<std::string> ran;
  std::function<void(HostTensor&)> spoil = [](HostTensor&) {};
  AnswerBudget budget;

  Result<std::vector<Answer>> run(const std::string& text, std::vector<std::string> texts) {
    auto file = parse(text, "p.json");
    REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.status().text()));
    static const auto bytes = text::compile_tokenizer(test::tokenizer_json(test::kWordPieceModel, test::kBertParts), "t.json").value();
    auto host = HostPipeline::create(file->pipelines[0], [&](std::string_view) -> Result<Bytes> { return Bytes(bytes); });
    REQUIRE(host.ok());
    Programs programs;
    programs.row_runs = [&](const std::string&, const std::string&) -> Result<RowRuns> { return runs; };
    programs.run = [&](const std::string&, const std::vector<NamedTensor>& inputs) { return answer(inputs); };
    std::vector<GivenInput> given;
    const auto count = static_cast<int64_t>(texts.size());
    given.push_back({"text", {}, HostTensor::of_strings({count}, std::move(texts))});
    auto made = host->before(std::move(given));
    REQUIRE(made.ok());
    return host->run(std::move(*made), {}, budget, programs);
  }

 private:
  Result<std::vector<NamedTensor>> answer(const std::vector<NamedTensor>& inputs) {
    REQUIRE(inputs.size() == 2);
    const HostTensor& ids = inputs[0].tensor;
    const HostTensor& mask = inputs[1].tensor;
    ran.push_back(type_text(ids.dtype, ids.shape));
    std::vector<NamedTensor> results;
    results.push_back({"sums", HostTensor::zeros(DType::F32, {ids.shape[0], 1}).value()});
    for (size_t k = 0; k < ids.as<int64_t>().size(); ++k)
      results[0].tensor.as<float>()[k / static_cast<size_t>(ids.shape[1])] += static_cast<float>(ids.as<int64_t>()[k] * mask.as<int64_t>()[k]);
    spoil(results[0].tensor);
    return results;
  }
};

const std::vector<std::string> kTexts = {"a", "unaffable", "", "a b unaffable a b", "b", "a b a b a b a b a b a b"};
const std::string kTokens = R"("x": "ids", "m": "mask")";

std::vector<float> sums_of(const Result<std::vector<Answer>>& answers) {
  REQUIRE_MESSAGE(answers.ok(), (answers.ok() ? "" : answers.status().text()));
  const auto& t = std::get<HostTensor>(answers->at(0).value);
  return {t.as<float>().begin(), t.as<float>().end()};
}

}  // namespace

TEST_CASE("rows are divided so that filling up and runs cost least together") {
  std::mt19937 draw(11);
  for (int k = 0; k < 200; ++k) {
    RowRuns runs;
    runs.run_tokens = static_cast<int64_t>(draw() % 30);
    runs.most_tokens = INT64_MAX;
    std::vector<int64_t> lengths(1 + draw() % 12);
    for (int64_t& length : lengths) length = static_cast<int64_t>(draw() % 40);
    const std::vector<RowGroup> groups = row_groups(lengths, runs);
    CHECK(cost_of(groups, runs) == least_cost(lengths, runs));
    std::vector<uint32_t> rows;
    for (const RowGroup& g : groups) {
      int64_t longest = 1;
      for (const uint32_t row : g.rows) longest = std::max(longest, lengths[row]), rows.push_back(row);
      CHECK(g.length == longest);
    }
    if (groups.size() == 1) CHECK(std::is_sorted(rows.begin(), rows.end()));
    std::sort(rows.begin(), rows.end());
    for (uint32_t row = 0; row < rows.size(); ++row) CHECK(rows[row] == row);
    CHECK(rows.size() == lengths.size());
  }
  CHECK(row_groups({}, {}).empty());
}

TEST_CASE("a run takes no more rows and tokens than it may, and one row of any length") {
  RowRuns runs;
  runs.most_tokens = 100;
  const std::vector<int64_t> lengths{30, 30, 30, 30, 500, 30};
  for (const int64_t most : {int64_t{1}, int64_t{2}, INT64_MAX}) {
    runs.most_rows = most;
    for (const RowGroup& g : row_groups(lengths, runs)) {
      CHECK(static_cast<int64_t>(g.rows.size()) <= most);
      CHECK((g.rows.size() == 1 || static_cast<int64_t>(g.rows.size()) * g.length <= 100));
    }
  }
}

TEST_CASE("what a program gives for groups of texts is in the order of the texts, filled up on either side") {
  for (const std::string side : {"right", "left"}) {
    CAPTURE(side);
    Sums whole, grouped;
    const std::vector<float> expected = sums_of(whole.run(without_bias(piped("longest", side, kTokens, "\"sums\"")), kTexts));
    CHECK(whole.ran == std::vector<std::string>{"i64[6,14]"});
    grouped.runs.run_tokens = 1;
    CHECK(sums_of(grouped.run(without_bias(piped("longest_of_group", side, kTokens, "\"sums\"")), kTexts)) == expected);
    CHECK(grouped.ran == std::vector<std::string>{"i64[3,3]", "i64[1,5]", "i64[1,9]", "i64[1,14]"});
    Sums one;  // where a run costs more than what is filled up
    one.runs.run_tokens = 1000;
    CHECK(sums_of(one.run(without_bias(piped("longest_of_group", side, kTokens, "\"sums\"")), kTexts)) == expected);
    CHECK(one.ran == whole.ran);
  }
}

TEST_CASE("a program without a row of one shape for each text is refused when it runs") {
  const std::string text = without_bias(piped("longest_of_group", "right", kTokens, "\"sums\""));
  Sums fewer, wider;
  fewer.runs.run_tokens = wider.runs.run_tokens = 0;
  fewer.spoil = [](HostTensor& t) { t = HostTensor::zeros(DType::F32, {t.shape[0] + 1, 1}).value(); };
  auto answers = fewer.run(text, kTexts);
  REQUIRE(!answers.ok());
  CHECK(answers.status().number == 4001);
  CHECK(answers.status().message == "'sums' is f32[2,1], and 1 texts give 1 rows");
  wider.spoil = [&](HostTensor& t) { t = HostTensor::zeros(DType::F32, {t.shape[0], static_cast<int64_t>(wider.ran.size())}).value(); };
  answers = wider.run(text, kTexts);
  REQUIRE(!answers.ok());
  CHECK(answers.status().message == "'sums' is f32[6,1] for some texts and f32[2,2] for others; rows of all texts have one shape");
}

TEST_CASE("results of groups are paid for") {
  Sums sums;
  sums.runs.run_tokens = 1;
  sums.budget = AnswerBudget(20);
  const auto answers = sums.run(without_bias(piped("longest_of_group", "right", kTokens, "\"sums\"")), kTexts);
  REQUIRE(!answers.ok());
  CHECK(answers.status().number == 6006);
}

TEST_CASE("what takes tokens in groups takes nothing beside them") {
  auto file = parse(piped("longest_of_group", "right", kTokens + R"(, "b": "bias")", "\"sums\""), "p.json");
  REQUIRE(!file.ok());
  CHECK(file.status().number == 5005);
  CHECK(file.status().text().find("takes 'bias' beside them") != std::string::npos);
  CHECK(parse(piped("longest", "right", kTokens + R"(, "b": "bias")", "\"sums\""), "p.json").ok());
  file = parse(without_bias(piped("shortest", "right", kTokens, "\"sums\"")), "p.json");
  REQUIRE(!file.ok());
  CHECK(file.status().text().find("is none of \"longest\", \"longest_of_group\" and a whole number") != std::string::npos);
}
