// Axes and other integers that only the run tells: folds over elements of `sym` inputs, and the operators that use
// them.
#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

struct Answer {
  Status status;
  std::vector<nest::Tensor> results;
};
// Built-in operator `name` of the newest opset, all inputs told by the run unless they say otherwise.
Answer answer(const std::string& name, const std::vector<Input>& inputs,
              std::map<std::string, lang::Attribute> attributes = {}, const std::string& text = "") {
  Expanded x;
  x.ctx.declare_sym("count", 0);
  expand_text(x, text, name, inputs, std::move(attributes));
  if (!x.status.ok()) return {x.status, {}};
  auto r = nest::interpret(x.function, x.inputs, {.threads = 1});
  if (!r.ok()) return {r.status(), {}};
  return {ok(), std::move(r).value()};
}
Input told(std::vector<int64_t> values) { return i64({static_cast<int64_t>(values.size())}, values, false); }
Input told_of_unknown_length(std::vector<int64_t> values) {
  Input in = told(std::move(values));
  in.symbols = {"count"};
  return in;
}
std::vector<float> numbers(size_t n) {
  std::vector<float> v(n);
  for (size_t k = 0; k < n; ++k) v[k] = static_cast<float>((k * 7 + 3) % 11);
  return v;
}
bool says(const Status& status, const std::string& part) {
  const std::string message = status.text();
  CAPTURE(message);
  return !status.ok() && message.find(part) != std::string::npos;
}
// The same call with its axes told by the run and known while building.
void check_same(const std::string& name, const Input& x, const std::vector<int64_t>& axes,
                std::map<std::string, lang::Attribute> attributes, bool scalar = false) {
  const Input run = scalar ? i64({}, axes, false) : told(axes);
  Input constant = run;
  constant.constant = true;
  const Answer a = answer(name, {x, run}, attributes), b = answer(name, {x, constant}, attributes);
  CAPTURE(name);
  REQUIRE_MESSAGE(a.status.ok(), a.status.text());
  REQUIRE_MESSAGE(b.status.ok(), b.status.text());
  CHECK(a.results[0].shape == b.results[0].shape);
  CHECK(a.results[0].bytes == b.results[0].bytes);
}

}  // namespace

TEST_CASE("reductions over axes that the run tells answer as those over known axes") {
  const std::vector<std::vector<int64_t>> all_axes = {{0}, {1}, {-1}, {0, 2}, {-1, 0}, {2, 1}, {0, 1, 2}, {-3, -1, -2}};
  for (const char* name : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                           "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    for (const auto& axes : all_axes)
      for (int64_t keep : {0, 1}) check_same(name, f32({2, 3, 4}, numbers(24)), axes, {{"keepdims", keep}});
}

TEST_CASE("reductions over told axes take free extents, empty ones and every element type") {
  Input x = f32({2, 3, 4}, numbers(24));
  x.symbols = {"a", "b", "c"};
  for (int64_t keep : {0, 1}) check_same("ReduceSum", x, {-2, 0}, {{"keepdims", keep}});
  check_same("ReduceSum", f32({2, 0, 4}, {}), {1}, {});
  check_same("ReduceProd", f32({2, 0, 4}, {}), {1}, {{"keepdims", int64_t{0}}});
  check_same("ReduceSum", f32({2, 0, 4}, {}), {0}, {{"keepdims", int64_t{0}}});
  check_same("ReduceMax", data<uint8_t>(DType::Bool, {2, 2}, {0, 1, 0, 0}), {1}, {});
  check_same("ReduceMin", data<uint8_t>(DType::U8, {2, 2}, {3, 1, 5, 9}), {-2}, {{"keepdims", int64_t{0}}});
  check_same("ReduceMean", data<int64_t>(DType::I64, {2, 2}, {-3, 1, 5, 9}), {0}, {});
}

TEST_CASE("how many axes the run tells may be open where the rank does not depend on it") {
  const Input x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  Answer a = answer("ReduceSum", {x, told_of_unknown_length({-1})});
  REQUIRE_MESSAGE(a.status.ok(), a.status.text());
  CHECK(a.results[0].shape == std::vector<int64_t>{2, 1});
  CHECK(a.results[0].values<float>() == std::vector<float>{6, 15});
  a = answer("ReduceSum", {x, told_of_unknown_length({1, 0})});
  REQUIRE(a.status.ok());
  CHECK(a.results[0].values<float>() == std::vector<float>{21});
  // None at all: all axes, or none, as the attribute says.
  a = answer("ReduceSum", {x, told_of_unknown_length({})});
  REQUIRE_MESSAGE(a.status.ok(), a.status.text());
  CHECK(a.results[0].values<float>() == std::vector<float>{21});
  a = answer("ReduceSum", {x, told_of_unknown_length({})}, {{"noop_with_empty_axes", int64_t{1}}});
  REQUIRE(a.status.ok());
  CHECK(a.results[0].shape == std::vector<int64_t>{2, 3});
  const std::string sentence = "how many axes there are is the rank of the result, and must be known while building";
  CHECK(says(answer("ReduceSum", {x, told_of_unknown_length({0})}, {{"keepdims", int64_t{0}}}).status, sentence));
  CHECK(says(answer("Squeeze", {f32({1, 3}, {1, 2, 3}), told_of_unknown_length({0})}).status, sentence));
  CHECK(says(answer("Unsqueeze", {x, told_of_unknown_length({0})}).status, sentence));
  CHECK(says(answer("ReduceSum", {x, told_of_unknown_length({1, 1})}).status, "ReduceSum"));
  CHECK(says(answer("ReduceSum", {x, told_of_unknown_length({2})}).status,
             "the axes are not all different, or not in range"));
}

TEST_CASE("axes that are not legal stop the run and name the operator") {
  const Input x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const char* name : {"ReduceSum", "ReduceMax", "Unsqueeze"})
    for (const auto& axes : {std::vector<int64_t>{1, 1},
                             {0, -2 - (name[0] == 'U' ? 2 : 0)},
                             {4, 0},
                             {0, -5},
                             {INT64_MIN, 0},
                             {INT64_MAX, 0}}) {
      CAPTURE(name);
      const Status s = answer(name, {x, told(axes)}).status;
      CHECK(says(s, std::string("ai.onnx.") + name));
      CHECK(says(s, "the axes are not all different, or not in range"));
    }
  for (int64_t axis : {2, -3})
    CHECK(says(answer("CumSum", {x, i64({}, {axis}, false)}).status, "the axis is not in range"));
  for (const Input& in : {x, f32({2, 1}, {1, 2})})
    CHECK(says(answer("Squeeze", {in, told({0})}).status, "an axis to remove has not extent 1"));
  for (int64_t axis : {2, -1, -4})
    CHECK(says(answer("DFT", {f32({1, 4, 2}, numbers(8)), absent(), i64({}, {axis}, false)}).status,
               "the axis is not in range"));
}

TEST_CASE("Squeeze, Unsqueeze, CumSum and DFT along axes that the run tells") {
  for (const auto& axes : {std::vector<int64_t>{0}, {-2}, {0, 2}, {2, -4}})
    check_same("Squeeze", f32({1, 3, 1, 4}, numbers(12)), axes, {});
  for (const auto& axes : {std::vector<int64_t>{0}, {-1}, {1, 3}, {3, -3}, {4, 0, 2}})
    check_same("Unsqueeze", f32({3, 4}, numbers(12)), axes, {});
  check_same("Unsqueeze", f32({}, {5}), {0}, {});
  check_same("Unsqueeze", f32({}, {5}), {1, 0}, {});
  check_same("Unsqueeze", f32({2, 1, 3, 1, 2}, numbers(12)), {5, 1}, {});
  for (int64_t axis : {-3, -1, 0, 1}) check_same("Unsqueeze", f32({3, 4}, numbers(12)), {axis}, {}, true);
  for (int64_t axis : {-3, -1, 0, 1, 2})
    for (int64_t reverse : {0, 1})
      check_same("CumSum", f32({2, 3, 4}, numbers(24)), {axis}, {{"reverse", reverse}, {"exclusive", 1 - reverse}},
                 true);
  Input x = f32({2, 3, 4}, numbers(24));
  x.symbols = {"a", "b", "c"};
  for (int64_t axis : {-1, 0, 1}) check_same("CumSum", x, {axis}, {}, true);
  check_same("CumSum", f32({2, 0, 4}, {}), {1}, {}, true);
  for (int64_t axis : {-2, 0, 1, 2}) {
    const std::vector<Input> run = {f32({2, 3, 4, 1}, numbers(24)), absent(), i64({}, {axis}, false)};
    std::vector<Input> constant = run;
    constant[2].constant = true;
    const Answer a = answer("DFT", run, {{"onesided", int64_t{1}}}),
                 b = answer("DFT", constant, {{"onesided", int64_t{1}}});
    REQUIRE_MESSAGE(a.status.ok(), a.status.text());
    REQUIRE(b.status.ok());
    CHECK(a.results[0].shape == b.results[0].shape);
    CHECK(a.results[0].values<float>() == b.results[0].values<float>());
  }
}

TEST_CASE("known axes leave no choice to the run: one nest, no read-back, no check") {
  for (int64_t keep : {0, 1}) {
    Expanded x;
    expand_text(x, "", "ReduceSum", {f32({2, 3, 4}, numbers(24)), i64({2}, {-1, 0})}, {{"keepdims", keep}});
    REQUIRE(x.status.ok());
    REQUIRE(x.function.body.size() == 1);
    REQUIRE(x.function.body[0].nest);
    CHECK(x.function.body[0].nest->dims.size() == 1);
    CHECK(x.function.checks.empty());
    const ir::Expr* sum = x.function.body[0].nest->writes[0].value;
    REQUIRE(sum->op == ir::Op::Fold);
    const ir::Expr* read = sum->args[0];
    REQUIRE(read->op == ir::Op::Load);
    CHECK(read->access == ir::Access::Proved);
    for (const ir::Expr* index : read->args) CHECK(index->op == ir::Op::Dim);
  }
}

TEST_CASE("reads at told axes are proved to be in range") {
  for (int64_t keep : {0, 1}) {
    Expanded x;
    expand_text(x, "", "ReduceSum", {f32({2, 3, 4}, numbers(24)), told({-1, 0})}, {{"keepdims", keep}});
    REQUIRE(x.status.ok());
    size_t reads = 0;
    for (const auto& s : x.function.body)
      if (s.nest)
        ir::walk(s.nest->writes[0].value, [&](const ir::Expr* e) {
          reads += e->op == ir::Op::Load;
          if (e->op == ir::Op::Load) CHECK(e->access != ir::Access::Checked);
        });
    CHECK(reads == 1);
  }
}

TEST_CASE(
    "a fold over elements of a sym input is a number: worked out where its length is known, else computed by the run") {
  const std::string text =
      "op A@1(x: f32[d], k: sym i64[e]) -> y: f32[o]\n  dim o = sum(k[e] for e) + max(k[e]*k[e] for e where k[e] > 1)\n"
      "  y[o] = x[o % |d|]\n";
  Answer a = answer("A", {f32({2}, {1, 2}), i64({3}, {2, 1, 0})}, {}, text);
  REQUIRE_MESSAGE(a.status.ok(), a.status.text());
  CHECK(a.results[0].shape == std::vector<int64_t>{7});
  const std::string open =
      "op A@1(x: f32[d], k: sym i64[e]) -> y: f32[o]\n  dim o = sum(k[e] for e)\n  y[o] = x[o % |d|]\n";
  for (const Input& k : {told({2, 1, 2}), told_of_unknown_length({2, 1, 2})}) {
    a = answer("A", {f32({2}, {1, 2}), k}, {}, open);
    REQUIRE_MESSAGE(a.status.ok(), a.status.text());
    CHECK(a.results[0].shape == std::vector<int64_t>{5});
    CHECK(a.results[0].values<float>() == std::vector<float>{1, 2, 1, 2, 1});
  }
  CHECK(says(answer("A", {f32({2}, {1, 2}), told_of_unknown_length({-3, 1})}, {}, open).status,
             "the extent of o comes out negative"));
  // An array that is no sym input stays data.
  const std::string data =
      "op A@1(x: f32[d], k: i64[e]) -> y: f32[o]\n  dim o = sum(k[e] for e)\n  y[o] = x[o % |d|]\n";
  CHECK(says(answer("A", {f32({2}, {1, 2}), told({2, 1})}, {}, data).status, "depends on"));
  CHECK(says(answer("A", {f32({2}, {1, 2}), i64({0}, {})}, {},
                    "op A@1(x: f32[d], k: sym i64[e]) -> y: f32[o]\n  dim o = max(k[e] for e)\n  y[o] = x[0]\n")
                 .status,
             "max of no number"));
}

TEST_CASE("a check may say what is wrong; known() tells numbers of the build from those of the run") {
  const std::string text =
      "op A@1(x: f32[d], k: sym i64[]) -> y: f32[d]\n  check k > 2 else \"k is too small\"\n  y[d] = x[d]\n";
  CHECK(says(answer("A", {f32({1}, {1}), i64({}, {1}, false)}, {}, text).status, "k is too small"));
  CHECK(says(answer("A", {f32({1}, {1}), i64({}, {1})}, {}, text).status, "k is too small"));
  CHECK(answer("A", {f32({1}, {1}), i64({}, {3}, false)}, {}, text).status.ok());
  CHECK(says(Status(Code::Malformed, refusal("op A@1(x: f32[d]) -> y: f32[d]\n  check 1 < 2 else 3\n  y[d] = x[d]\n")),
             "a sentence in quotes expected"));
  const std::string asks = "op A@1(k: sym i64[]) -> y: i64[]\n  y[] = known(k) ? 1 : 0\n";
  CHECK(answer("A", {i64({}, {3})}, {}, asks).results.at(0).values<int64_t>() == std::vector<int64_t>{1});
  CHECK(answer("A", {i64({}, {3}, false)}, {}, asks).results.at(0).values<int64_t>() == std::vector<int64_t>{0});
}

TEST_CASE("definitions share clauses by name") {
  const std::string text =
      "clauses twice\n  attr by: float = 2.0\n  let k = by + 1\n"
      "op A@1(x: f32[d]) -> y: f32[d]\n  use twice\n  y[d] = k*x[d]\n"
      "op B@1(x: f32[d]) -> y: f32[d]\n  use twice\n  y[d] = k + x[d]\n";
  CHECK(answer("A", {f32({2}, {1, 2})}, {}, text).results.at(0).values<float>() == std::vector<float>{3, 6});
  CHECK(answer("B", {f32({2}, {1, 2})}, {{"by", 4.0}}, text).results.at(0).values<float>() == std::vector<float>{6, 7});
  auto library = parse(text);
  REQUIRE(library.ok());
  size_t own = 0;
  for (const auto& op : library->operators()) {
    if (op.file != "test.mlop") continue;
    ++own;
    CHECK(op.text.find("clauses twice\n  attr by") != std::string::npos);
  }
  CHECK(own == 2);
  auto refused = [](const std::string& t) { return Status(Code::Malformed, refusal(t)); };
  CHECK(says(refused("op A@1(x: f32[d]) -> y: f32[d]\n  use twice\n  y[d] = x[d]\n"),
             "test.mlop:2:7: there are no clauses 'twice'"));
  CHECK(says(refused("clauses a\n  use twice\n"), "test.mlop:2:7: there are no clauses 'twice'"));
  CHECK(says(refused("clauses a\n  let k = 1\nclauses a\n  let k = 1\n"), "a second block of clauses 'a'"));
  CHECK(
      says(refused("clauses a\n  attr k: int\nop A@1(x: f32[d]) -> y: f32[d]\n  attr k: int\n  use a\n  y[d] = x[d]\n"),
           "a second attribute 'k'"));
  CHECK(says(refused("clauses a\n  let k = q\nop A@1(x: f32[d]) -> y: f32[d]\n  use a\n  y[d] = x[d]\n"),
             "unknown name 'q'"));
  std::string many = "clauses c0\n  check 1 < 2\n";
  for (int k = 1; k < 40; ++k)
    many += "clauses c" + std::to_string(k) + "\n  use c" + std::to_string(k - 1) + "\n  use c" +
            std::to_string(k - 1) + "\n";
  many += "op A@1(x: f32[d]) -> y: f32[d]\n  use c39\n  y[d] = x[d]\n";
  CHECK(says(refused(many), "a definition of more than 10000 statements"));
  CHECK(says(refused("clauses a\n  use b\nclauses b\n  use a\nop A@1(x: f32[d]) -> y: f32[d]\n  use a\n  y[d] = x[d]\n"),
             "use each other without end"));
  CHECK(says(refused("clauses a\n  attr x: int\nop A@1(x: f32[d]) -> y: f32[d]\n  use a\n  y[d] = x[d]\n"),
             "a second declaration of 'x'"));
}

TEST_CASE("clauses are seen by the other files of their domain, a file's own first") {
  const auto value = [](const std::vector<lang::SourceFile>& files, const std::string& domain) {
    auto library = lang::Library::parse(files);
    REQUIRE_MESSAGE(library.ok(), library.status().message);
    ir::Context ctx;
    nest::Function function;
    lang::Call call;
    call.domain = domain;
    call.name = "A";
    auto made = library->expand(ctx, function, call);
    REQUIRE_MESSAGE(made.ok(), made.status().message);
    return made->at(0).elements.at(0)->i;
  };
  const std::string op = "op A@1() -> y: i64[]\n  use k\n  y[] = k\n";
  const lang::SourceFile plain = {"shared.mlop", "clauses k\n  let k = 1\n"};
  const lang::SourceFile others = {"others.mlop", "domain other\nclauses k\n  let k = 2\n"};
  CHECK(value({plain, others, {"own.mlop", op}}, "") == 1);
  CHECK(value({{"own.mlop", op}, plain, others}, "") == 1);
  CHECK(value({plain, others, {"own.mlop", "domain other\n" + op}}, "other") == 2);
  CHECK(value({plain, {"own.mlop", "domain other\n" + op}}, "other") == 1);
  CHECK(value({plain, others, {"own.mlop", op + "clauses k\n  let k = 3\n"}}, "") == 3);
  // an error stands where its text does
  auto library = lang::Library::parse({{"a.mlop", "clauses k\n  check 1 < unknown\n"}, {"own.mlop", op}});
  REQUIRE(!library.ok());
  CHECK(says(library.status(), "a.mlop:2:13: unknown name"));
}
