// Steps about strings, in plans written as text: what they do, and that operands that lie fail the run, not the process.
#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "packager/plan/text.h"
#include "runtime/plan/execute/executor.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

struct NoKernels final : KernelModule {
  uint32_t num_kernels() const override { return 0; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch&, uint32_t, uint32_t, WorkMeter&) const override { return MLRUN_FAULT_BAD_CODE; }
};
struct NoConstants final : Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "none"); }
};

using Texts = std::vector<std::string>;

struct Strings {
  Texts texts;
  std::vector<int64_t> shape{static_cast<int64_t>(texts.size())};
  std::vector<Text> views;
  operator InputArg() {
    views.clear();
    for (const std::string& s : texts) views.push_back({s.data(), s.size()});
    return {DType::Str, shape, views.data(), views.size() * sizeof(Text)};
  }
};
template <class T>
struct Numbers {
  DType dtype;
  std::vector<T> values;
  std::vector<int64_t> shape{static_cast<int64_t>(values.size())};
  operator InputArg() const { return {dtype, shape, values.data(), values.size() * sizeof(T)}; }
};

struct Rig {
  Plan plan;
  NoKernels kernels;
  NoConstants constants;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<Executor> executor;
  std::vector<OutputArg> outputs;

  explicit Rig(const std::string& body, Limits limits = {}) {
    auto text = plan::parse("plan\nfunction \"main\" {\n" + body + "}\n");
    REQUIRE_MESSAGE(text.ok(), (text.ok() ? std::string() : text.status().message));
    auto decoded = decode_plan(plan::encode(*text), {0, {}});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    PoolOptions o;
    o.workers = 1;
    pool = WorkerPool::create(o).value();
    executor = std::move(Executor::create(plan, kernels, constants, *pool, limits)).value();
  }
  Status run(const std::vector<InputArg>& inputs) {
    outputs.assign(plan.functions[0].outputs.size(), {});
    return executor->run(0, inputs, outputs);
  }
};

Texts texts_of(const OutputArg& o) {
  CHECK(o.dtype == DType::Str);
  Texts out;
  for (uint64_t k = 0; k < o.bytes / sizeof(Text); ++k) {
    const Text& t = static_cast<const Text*>(o.data)[k];
    out.emplace_back(t.data, t.bytes);
  }
  return out;
}

std::string refusal(const std::string& body) {
  auto text = plan::parse("plan\nfunction \"main\" {\n" + body + "}\n");
  if (!text.ok()) return "text: " + text.status().message;
  auto decoded = decode_plan(plan::encode(*text), {0, {}});
  return decoded.ok() ? std::string() : decoded.status().message;
}

const char* const kInOut = R"(
  $0 = dim 0 0
  input "x" str [$0] %0
)";

}  // namespace

TEST_CASE("texts are put together, and come out as they went in") {
  Rig rig(std::string(kInOut) + R"(
    %1 = strings_in (%0)
    %2 = string_concat (%1, %1)
    %3 = strings_out (%2)
    output "y" str rank 1 %3
  )");
  for (int round = 0; round < 3; ++round) {
    Strings x{{"a", "", "d\xC3\xA9j\xC3\xA0", std::string(100000, 'z'), std::string("\0b", 2), "a"}};
    REQUIRE(rig.run({x}).ok());
    const Texts y = texts_of(rig.outputs[0]);
    REQUIRE(y.size() == 6);
    for (size_t k = 0; k < 6; ++k) CHECK(y[k] == x.texts[k] + x.texts[k]);
    CHECK(static_cast<const Text*>(rig.outputs[0].data)[0].data == static_cast<const Text*>(rig.outputs[0].data)[5].data);
  }
  Strings none{{}};
  REQUIRE(rig.run({none}).ok());
  CHECK(rig.outputs[0].bytes == 0);
}

TEST_CASE("texts are split, counted and filled up") {
  const auto with = [](const char* cuts) {
    return std::string(kInOut) + R"(
      $1 = dim 1 0
      input "by" str [$1] %1
      %2 = strings_in (%0)
      %3 = strings_in (%1)
      %4, %5 = string_split cuts )" + cuts + R"( (%2, %3)
      %6 = strings_out (%4)
      output "y" str rank 2 %6
      output "n" i64 rank 1 %5
    )";
  };
  Strings x{{"a--b", "", "--", "c--d--e"}}, dashes{{"--"}}, blank{{""}}, two{{"a", "b"}};
  Rig all(with("4294967295")), once(with("1"));
  REQUIRE(all.run({x, dashes}).ok());
  CHECK(texts_of(all.outputs[0]) == Texts{"a", "b", "", "", "", "", "", "", "", "c", "d", "e"});
  CHECK(std::memcmp(all.outputs[1].data, std::vector<int64_t>{2, 1, 2, 3}.data(), 32) == 0);
  REQUIRE(once.run({x, dashes}).ok());
  CHECK(texts_of(once.outputs[0]) == Texts{"a", "b", "", "", "", "", "c", "d--e"});
  Strings words{{"  one two  three ", " "}};
  REQUIRE(once.run({words, blank}).ok());
  CHECK(texts_of(once.outputs[0]) == Texts{"one", "two  three ", "", ""});
  REQUIRE(all.run({words, blank}).ok());
  CHECK(texts_of(all.outputs[0]) == Texts{"one", "two", "three", "", "", ""});
  CHECK(all.run({x, two}).code == Code::InputMismatch);
}

TEST_CASE("ends of pieces and numbers of strings that lie fail the run") {
  Rig make(R"(
    $0 = dim 0 0 $1 = dim 1 0
    input "text" u8 [$0] %0
    input "ends" i64 [$1] %1
    %2 = strings_make (%0, %1)
    %3 = strings_out (%2)
    output "y" str rank 1 %3
  )");
  const Numbers<uint8_t> text{DType::U8, {'a', 'b', 'c'}};
  REQUIRE(make.run({text, Numbers<int64_t>{DType::I64, {1, 1, 3}}}).ok());
  CHECK(texts_of(make.outputs[0]) == Texts{"a", "", "bc"});
  for (const std::vector<int64_t>& ends : {std::vector<int64_t>{4}, {-1}, {2, 1}, {INT64_MAX}, {INT64_MIN}, {3, 0}})
    CHECK(make.run({text, Numbers<int64_t>{DType::I64, ends}}).code == Code::InputMismatch);
  Rig out(R"(
    $0 = dim 0 0
    input "numbers" u64 [$0] %0
    %1 = strings_out (%0)
    output "y" str rank 1 %1
  )");
  REQUIRE(out.run({Numbers<uint64_t>{DType::U64, {0, 0}}}).ok());
  CHECK(texts_of(out.outputs[0]) == Texts{"", ""});
  for (uint64_t n : {uint64_t{1}, uint64_t{UINT32_MAX}, UINT64_MAX})
    CHECK(out.run({Numbers<uint64_t>{DType::U64, {0, n}}}).code == Code::InputMismatch);
}

TEST_CASE("numbers become texts and texts numbers; what is no number fails the run with its text") {
  Rig rig(std::string(kInOut) + R"(
    %1 = strings_in (%0)
    %2 = number_from_string (%1)
    %3 = string_from_number (%2)
    %4 = strings_out (%3)
    output "y" str rank 1 %4
  )");
  Strings x{{"1", " 2.50 ", "1e-7", "NaN", "-INF"}}, wrong{{"1", "one"}};
  REQUIRE(rig.run({x}).ok());
  CHECK(texts_of(rig.outputs[0]) == Texts{"1.0", "2.5", "1e-07", "nan", "-inf"});
  const Status s = rig.run({wrong});
  CHECK(s.code == Code::InputMismatch);
  CHECK(s.text().find("'one'") != std::string::npos);
}

TEST_CASE("words are left out and change case") {
  const auto with = [](const char* change) {
    return std::string(kInOut) + R"(
      $1 = dim 1 0
      input "stop" str [$1] %1
      %2 = strings_in (%0)
      %3 = strings_in (%1)
      %4 = string_normalize )" + change + R"( (%2, %3)
      %5 = strings_out (%4)
      output "y" str rank 1 %5
    )";
  };
  Strings x{{"Monday", "tuesday", "\xC3\x84rger"}}, stop{{"monday"}}, every{{"MONDAY", "TUESDAY", "\xC3\xA4rger"}};
  Rig upper(with("upper")), exact(with("lower match_case"));
  REQUIRE(upper.run({x, stop}).ok());
  CHECK(texts_of(upper.outputs[0]) == Texts{"TUESDAY", "\xC3\x84RGER"});
  REQUIRE(upper.run({x, every}).ok());
  CHECK(texts_of(upper.outputs[0]) == Texts{""});
  REQUIRE(exact.run({x, stop}).ok());
  CHECK(texts_of(exact.outputs[0]) == Texts{"monday", "tuesday", "\xC3\xA4rger"});
}

TEST_CASE("texts count against the memory of the session") {
  Limits limits;
  limits.max_memory_bytes = 4 << 20;
  Rig rig(std::string(kInOut) + R"(
    %1 = strings_in (%0)
    %2 = string_concat (%1, %1)
    %3 = string_concat (%2, %2)
    %4 = string_concat (%3, %3)
    %5 = string_concat (%4, %4)
    %6 = strings_out (%5)
    output "y" str rank 1 %6
  )", limits);
  Strings small{{"abc"}}, large{{std::string(1 << 20, 'x')}};
  CHECK(rig.run({large}).code == Code::Resource);
  CHECK(rig.run({small}).ok());
}

TEST_CASE("plans that treat strings as anything else are refused") {
  const std::string in = kInOut;
  CHECK(refusal(in + "%1 = strings_out (%0) output \"y\" str rank 1 %1 ") != "");
  CHECK(refusal(in + "%1 = string_concat (%0, %0) output \"y\" u64 rank 1 %1 ") != "");
  CHECK(refusal(in + "%1 = list_make (%0) output \"y\" str list 1 %1 ") != "");
  CHECK(refusal(in + "%1 = list_length (%0) output \"y\" i64 rank 0 %1 ") != "");
  CHECK(refusal(in + "%1 = list_split axis 0 (%0, -) %2 = list_length (%1) output \"y\" i64 rank 0 %2 ") != "");
  CHECK(refusal(in + "%1 = strings_in (%0) %2 = string_match (%1, %1) output \"y\" bool rank 1 %2 ") != "");
  CHECK(refusal(in + "%1 = strings_in (%0) %2 = string_split cuts 1 (%1, %1) output \"y\" u64 rank 2 %2 ") != "");
  CHECK(refusal("input \"x\" str list 1 %0 %1 = list_length (%0) output \"y\" i64 rank 0 %1 ") != "");
  CHECK(refusal("input \"x\" str list 1 %0 %1 = strings_in (%0) output \"y\" u64 rank 1 %1 ") != "");
  CHECK(refusal(in + "%1 = strings_in (%0) %2 = string_rank (%1) output \"y\" u64 rank 1 %2 ") != "");
  CHECK(refusal(in + "%1 = strings_in (%0) %2, %3 = string_tokens letters 1 (%1, %1) output \"y\" u64 rank 2 %2 ") != "");
}

TEST_CASE("lists of texts come in, grow, and go out") {
  Rig rig(R"(
    $0 = dim 1 0
    input "x" str list 1 %0
    input "more" str [$0] %1
    %2 = strings_in (%0)
    %3 = strings_in (%1)
    %4 = list_insert (%2, %3, -)
    %5 = strings_out (%4)
    output "y" str list 1 %5
  )");
  Strings first{{"a", "bb"}}, second{{""}}, more{{"new", "a"}};
  for (int round = 0; round < 2; ++round) {
    const std::vector<InputArg> items{first, second};
    InputArg list{DType::Str, {}, nullptr, 0, items, 1};
    REQUIRE(rig.run({list, more}).ok());
    const OutputArg& y = rig.outputs[0];
    REQUIRE(y.items.size() == 3);
    CHECK(texts_of(y.items[0]) == first.texts);
    CHECK(texts_of(y.items[1]) == second.texts);
    CHECK(texts_of(y.items[2]) == more.texts);
    InputArg empty{DType::Str, {}, nullptr, 0, {}, 1};
    REQUIRE(rig.run({empty, more}).ok());
    CHECK(rig.outputs[0].items.size() == 1);
  }
  InputArg short_item = first;
  short_item.bytes = 8;
  const std::vector<InputArg> items{short_item};
  CHECK(rig.run({InputArg{DType::Str, {}, nullptr, 0, items, 1}, more}).code == Code::InputMismatch);
}

TEST_CASE("texts are ranked, byte by byte, equal ones alike") {
  Rig rig(std::string(kInOut) + R"(
    %1 = strings_in (%0)
    %2 = string_rank (%1)
    output "y" i64 rank 1 %2
  )");
  std::vector<std::string> texts;
  for (size_t count = 0; count < 40; ++count) {
    const std::set<std::string> different(texts.begin(), texts.end());
    Strings x{texts};
    REQUIRE(rig.run({x}).ok());
    REQUIRE(rig.outputs[0].bytes == 8 * count);
    for (size_t k = 0; k < count; ++k)
      CHECK(static_cast<const int64_t*>(rig.outputs[0].data)[k] == std::distance(different.begin(), different.find(texts[k])));
    texts.push_back(count % 7 == 0 ? "" : std::to_string(count * 7919 % 31) + (count % 3 ? "\xC3\xBC" : "Z"));
  }
}
