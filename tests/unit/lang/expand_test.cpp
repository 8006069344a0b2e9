// What definitions mean, and what is refused at a call.
#include <random>

#include "packager/nest/facts/independent.h"
#include "packager/nest/proc.h"
#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

Status refused(const std::string& text, const std::string& name, const std::vector<Input>& inputs) {
  Expanded x;
  expand_text(x, text, name, inputs);
  return x.status;
}

std::string failure(const std::string& text, const std::string& name, const std::vector<Input>& inputs,
                    std::map<std::string, lang::Attribute> attributes = {}, std::vector<bool> outputs = {true}) {
  Expanded x;
  expand_text(x, text, name, inputs, std::move(attributes), std::move(outputs));
  CHECK_FALSE(x.status.ok());
  CHECK(x.function.body.empty());  // a failure leaves nothing behind
  CHECK(x.function.checks.empty());
  std::string all = x.status.message;
  for (const auto& f : x.status.facts) all += "\n" + f;
  return all;
}
bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}
std::vector<float> floats(const std::string& text, const std::string& name, const std::vector<Input>& inputs,
                          std::map<std::string, lang::Attribute> attributes = {}) {
  Expanded x;
  expand_text(x, text, name, inputs, std::move(attributes));
  return run(x)[0].values<float>();
}

}  // namespace

TEST_CASE("packs make a map independent of rank") {
  const std::string text = "op A@1<T: num>(x: T[d...]) -> y: T[d...]\n  y[d] = 2*x[d] + 1\n";
  CHECK(floats(text, "A", {f32({2, 2}, {1, 2, 3, 4})}) == std::vector<float>{3, 5, 7, 9});
  CHECK(floats(text, "A", {f32({}, {1})}) == std::vector<float>{3});
}

TEST_CASE("a result element that maps do not write exactly once is refused") {
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[d]\n  y[2*d] = x[d]\n", "A", {f32({4}, {1, 2, 3, 4})}), "written with gaps or more than once"));
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[d, d]\n  y[d, d] = x[d]\n", "A", {f32({4}, {1, 2, 3, 4})}), "diagonal"));
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = x[d]\n  y[d] = 1\n", "A", {f32({2}, {1, 2})}), "two statements write the same elements"));
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[o]\n  dim o = |d| + 1\n  y[d] = x[d]\n", "A", {f32({2}, {1, 2})}), "not written exactly once"));
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[d]\n  y[d % 2] = x[d]\n", "A", {f32({4}, {1, 2, 3, 4})}), "write a push"));
  // Two parts that tile an axis are one whole.
  CHECK(floats("op A@1(x: f32[d]) -> y: f32[o]\n  dim o = 2*|d|\n  y[d] = x[d]\n  y[d + |d|] = -x[d]\n", "A", {f32({2}, {1, 2})}) ==
        std::vector<float>{1, 2, -1, -2});
}

TEST_CASE("a name on the right is bound by the left side or by a fold") {
  CHECK(says(failure("op A@1(x: f32[d, e]) -> y: f32[d]\n  y[d] = x[d, e]\n", "A", {f32({2, 2}, {1, 2, 3, 4})}),
             "'e' is bound neither by the left side nor by a fold"));
  CHECK(floats("op A@1(x: f32[d, e]) -> y: f32[d]\n  y[d] = sum(x[d, e] for e)\n", "A", {f32({2, 2}, {1, 2, 3, 4})}) == std::vector<float>{3, 7});
}

TEST_CASE("element types are converted only where the text says so; literals adapt") {
  CHECK(says(failure("op A@1(x: f32[d]) -> y: i64[d]\n  y[d] = x[d]\n", "A", {f32({2}, {1, 2})}), "implicit conversion from f32 to i64"));
  CHECK(says(failure("op A@1(x: f32[d], z: i64[d]) -> y: f32[d]\n  y[d] = x[d] + z[d]\n", "A", {f32({2}, {1, 2}), i64({2}, {1, 2}, false)}),
             "element types f32 and i64 meet"));
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = x[d] + d\n", "A", {f32({2}, {1, 2})}), "an index does not adapt to f32"));
  CHECK(says(failure("op A@1(x: i64[d]) -> y: i64[d]\n  y[d] = x[d] / 2\n", "A", {i64({2}, {1, 2}, false)}), "'/' is real division"));
  CHECK(says(failure("op A@1(x: i64[d]) -> y: i64[d]\n  y[d] = x[d] + 0.5\n", "A", {i64({2}, {1, 2}, false)}), "is no i64"));
  CHECK(floats("op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = x[d] / |d| + f32(d)\n", "A", {f32({2}, {1, 2})}) == std::vector<float>{0.5f, 2});
}

TEST_CASE("a read is proved in range, clamped by the text, or checked") {
  auto access = [](const std::string& text, const std::vector<Input>& inputs) {
    Expanded x;
    expand_text(x, text, "A", inputs);
    REQUIRE_MESSAGE(x.status.ok(), x.status.text());
    ir::Access worst = ir::Access::Proved;
    for (const auto& s : x.function.body)
      for (const auto& w : s.nest->writes)
        ir::walk(w.value, [&](const ir::Expr* e) {
          if (e->op == ir::Op::Load && e->access != ir::Access::Proved) worst = e->access;
        });
    return worst;
  };
  const Input x = f32({4}, {1, 2, 3, 4}), at = i64({2}, {0, 3}, false);
  CHECK(access("op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = x[|d| - 1 - d]\n", {x}) == ir::Access::Proved);
  CHECK(access("op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = d > 0 ? x[d - 1] : 0\n", {x}) == ir::Access::Proved);
  CHECK(access("op A@1(x: f32[d]) -> y: f32[d]\n  dim k = 3; let at = d + k - 1\n  y[d] = sum(x[at] for k where 0 <= at < |d|)\n", {x}) == ir::Access::Proved);
  CHECK(access("op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = x[d + 1]\n", {x}) == ir::Access::Checked);
  // Another extent, which a check of the run says is the same.
  Input a = x, b = x;
  a.symbols = {"a"}, b.symbols = {"b"};
  CHECK(access("op A@1(x: f32[d], z: f32[q]) -> y: f32[d]\n  check |q| == |d|\n  y[d] = x[d] + z[d]\n", {a, b}) == ir::Access::Proved);
  CHECK(access("op A@1(x: f32[d], z: f32[q]) -> y: f32[d]\n  check |q| >= 3\n  y[d] = x[d] + z[d]\n", {a, b}) == ir::Access::Checked);
  CHECK(access("op A@1(x: f32[d], at: i64[q]) -> y: f32[q]\n  y[q] = x[at[q]]\n", {x, at}) == ir::Access::Checked);
  CHECK(access("op A@1(x: f32[d], at: i64[q]) -> y: f32[q]\n  y[q] = x[clamp(at[q], 0, |d| - 1)]\n", {x, at}) != ir::Access::Checked);
  // A clamp to something else is no guard.
  CHECK(access("op A@1(x: f32[d], at: i64[q]) -> y: f32[q]\n  y[q] = x[clamp(at[q], 0, 1000)]\n", {x, at}) == ir::Access::Checked);
}

TEST_CASE("dims of one name have one extent, and the message says where each came from") {
  const std::string text = "op A@1(x: f32[d, e], z: f32[e]) -> y: f32[d, e]\n  y[d, e] = x[d, e] + z[e]\n";
  const std::string m = failure(text, "A", {f32({2, 3}, std::vector<float>(6)), f32({4}, std::vector<float>(4))});
  CHECK(says(m, "dim e: 3 (axis 1 of x) and 4 (axis 0 of z) differ"));
  CHECK(says(m, "node (ai.onnx.A, opset 100)"));
  CHECK(says(failure(text, "A", {f32({2}, {1, 2}), f32({2}, {1, 2})}), "input x has rank 1, expected 2"));
  CHECK(says(failure(text, "A", {f32({2, 1}, {1, 2})}), "input z is missing"));
  CHECK(says(failure(text, "A", {f32({2, 1}, {1, 2}), i64({1}, {1})}), "input z has element type i64, expected f32"));
  CHECK(says(failure(text, "A", {f32({2, 1}, {1, 2}), f32({1}, {1}), f32({1}, {1})}), "has 3 inputs"));
}

namespace {
const std::string kSum = "op A@1(x: f32[~d...], z: f32[~d...]) -> y: f32[d...]\n  y[d] = x[d] + z[d]\n";

Input named(Input in, std::vector<std::string> symbols) {
  in.symbols = std::move(symbols);
  return in;
}
}  // namespace

TEST_CASE("of two unrelated symbols the run decides which broadcasts, if they are not equal") {
  Expanded x;
  for (const char* name : {"n", "m"}) x.ctx.declare_sym(name, 0);
  expand_text(x, kSum, "A", {named(f32({2}, {1, 2}), {"n"}), named(f32({2}, {10, 20}), {"m"})});
  CHECK(run(x)[0].values<float>() == std::vector<float>{11, 22});
  CHECK(x.function.checks.size() == 1);
  const Input one = f32({1}, {100}), three = f32({3}, {1, 2, 3}), none = f32({0}, {});
  auto with = [&](const Input& a, const Input& b) {
    x.inputs = {a.tensor, b.tensor};
    return nest::interpret(x.function, x.inputs, {.threads = 1});
  };
  CHECK((*with(one, three))[0].values<float>() == std::vector<float>{101, 102, 103});
  CHECK((*with(three, one))[0].values<float>() == std::vector<float>{101, 102, 103});
  CHECK((*with(one, one))[0].values<float>() == std::vector<float>{200});
  CHECK((*with(one, none))[0].shape == std::vector<int64_t>{0});
  for (auto& [a, b] : {std::pair{f32({2}, {1, 2}), three}, {three, none}}) {
    auto r = with(a, b);
    CHECK_FALSE(r.ok());
    CHECK(says(r.status().message, "broadcast of d"));
    CHECK(says(r.status().message, "neither is 1"));
  }
}

TEST_CASE("a symbol broadcasts to a constant at run time, and to an extent that another input sets") {
  Expanded x;
  expand_text(x, kSum, "A", {f32({2, 2}, {1, 2, 3, 4}), named(f32({1, 2}, {10, 20}), {"n", ""})});
  CHECK(run(x)[0].values<float>() == std::vector<float>{11, 22, 13, 24});
  CHECK(x.function.arrays[x.outputs[0].array].shape[0]->is_int(2));
  x.inputs[1] = f32({2, 2}, {10, 20, 30, 40}).tensor;
  CHECK((*nest::interpret(x.function, x.inputs, {.threads = 1}))[0].values<float>() == std::vector<float>{11, 22, 33, 44});

  const std::string text = "op A@1(x: f32[d...], z: f32[~d...]) -> y: f32[d...]\n  y[d] = x[d] + z[d]\n";
  Expanded p;
  expand_text(p, text, "A", {named(f32({3}, {1, 2, 3}), {"n"}), named(f32({1}, {10}), {"m"})});
  CHECK(run(p)[0].values<float>() == std::vector<float>{11, 12, 13});
  // The other way is no broadcast: x has the extents that count.
  p.inputs = {f32({1}, {10}).tensor, f32({3}, {1, 2, 3}).tensor};
  auto r = nest::interpret(p.function, p.inputs, {.threads = 1});
  CHECK_FALSE(r.ok());
  CHECK(says(r.status().message, "is neither 1 nor n"));
}

TEST_CASE("what broadcast once has one extent, whatever it meets then") {
  const std::string text = R"(
op A@1(x: f32[~d...], z: f32[~d...], u: f32[~d...]) -> y: f32[d...], w: f32[d...]
  s[d] = x[d] + z[d]
  y[d] = s[d] + u[d]; w[d] = s[d]*x[d]
)";
  Expanded x;
  expand_text(x, text, "A", {named(f32({3}, {1, 2, 3}), {"n"}), named(f32({1}, {10}), {"m"}), named(f32({3}, {100, 200, 300}), {"n"})},
              {}, {true, true});
  auto r = run(x);
  CHECK(r[0].values<float>() == std::vector<float>{111, 212, 313});
  CHECK(r[1].values<float>() == std::vector<float>{11, 24, 39});
  CHECK(x.function.checks.size() == 1);
  CHECK(x.function.arrays[x.outputs[0].array].shape == x.function.arrays[x.outputs[1].array].shape);
}

TEST_CASE("bounds without 1, and a check that says so, leave extents equal") {
  for (bool bounded : {true, false}) {
    Expanded x;
    for (const char* name : {"n", "m"}) x.ctx.declare_sym(name, bounded ? 2 : 1);
    if (!bounded)  // an operator before asked for it
      x.function.checks.push_back({x.ctx.binary(ir::Op::Eq, x.ctx.sym(x.ctx.declare_sym("n")), x.ctx.sym(x.ctx.declare_sym("m"))), "equal"});
    expand_text(x, kSum, "A", {named(f32({2}, {1, 2}), {"n"}), named(f32({2}, {10, 20}), {"m"})});
    CHECK(run(x)[0].values<float>() == std::vector<float>{11, 22});
    CHECK(x.function.arrays[x.outputs[0].array].shape[0]->op == ir::Op::Sym);
    CHECK(x.function.checks.size() == 1);
    x.inputs = {f32({1}, {10}).tensor, f32({3}, {1, 2, 3}).tensor};
    CHECK_FALSE(nest::interpret(x.function, x.inputs, {.threads = 1}).ok());
  }
}

TEST_CASE("a condition that does not hold is shown with what it compares, and with the inputs") {
  const std::string text = "op A@1(x: f32[d...], z: sym i64[e]) -> y: f32[d...]\n  check prod(|d|) ==  # a comment\n      z[0] + z[1]\n  y[d] = x[d]\n";
  const Status s = refused(text, "A", {f32({2, 3}, std::vector<float>(6)), i64({2}, {3, 4})});
  CHECK(says(s.message, "expected prod(|d|) == z[0] + z[1], found 6 and 7"));
  CHECK(says(s.message, "node (ai.onnx.A, opset 100)"));
  CHECK(s.facts.size() == 3);
  CHECK(says(s.facts.at(0), "x"));
  CHECK(says(s.facts.at(0), "f32[2,3]"));
  CHECK(says(s.facts.at(1), "i64[2] = 3, 4"));
}

TEST_CASE("of definitions for several ranks the one for these ranks says what is wrong, once") {
  const std::string text =
      "op A@1(x: f32[m, k], z: f32[k, n]) -> y: f32[m, n]\n  y[m, n] = sum(x[m, k] * z[k, n] for k)\n"
      "op A@1(x: f32[k], z: f32[k, n]) -> y: f32[n]\n  y[n] = sum(x[k] * z[k, n] for k)\n"
      "op A@1(x: f32[k], z: f32[k]) -> y: f32[]\n  y[] = sum(x[k] * z[k] for k)\n";
  const Status s = refused(text, "A", {f32({2, 3}, std::vector<float>(6)), f32({4, 5}, std::vector<float>(20))});
  CHECK(says(s.message, "dim k: 3 (axis 1 of x) and 4 (axis 0 of z) differ"));
  CHECK(s.facts.size() == 3);
  // None of them is for an array of rank 3.
  const Status other = refused(text, "A", {f32({1, 2, 3}, std::vector<float>(6)), f32({3, 5}, std::vector<float>(15))});
  CHECK(says(other.message, "no definition of ai.onnx.A"));
  CHECK(other.facts.size() == 2);
}

TEST_CASE("an extent of one known while building reads index 0") {
  const std::string text = "op A@1(x: f32[~d...], z: f32[~d...]) -> y: f32[d...]\n  y[d] = x[d] + z[d]\n";
  CHECK(floats(text, "A", {f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30})}) == std::vector<float>{11, 21, 31, 12, 22, 32});
  CHECK(floats(text, "A", {f32({}, {1}), f32({1, 2}, {10, 20})}) == std::vector<float>{11, 21});
  CHECK(says(failure(text, "A", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}), "broadcast of d: 2 (axis 0 of x) and 3 (axis 0 of z) differ"));
}

TEST_CASE("products of dims divide exactly or fail") {
  const std::string text = "op A@1(x: f32[(g, c)]) -> y: f32[c, g]\n  attr group: int\n  dim g = group\n  y[c, g] = x[(g, c)]\n";
  CHECK(floats(text, "A", {f32({6}, {1, 2, 3, 4, 5, 6})}, {{"group", int64_t{2}}}) == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(says(failure(text, "A", {f32({5}, std::vector<float>(5))}, {{"group", int64_t{2}}}), "no multiple of 2"));
  CHECK(says(failure(text, "A", {f32({5}, std::vector<float>(5))}, {{"group", int64_t{0}}}), "a factor is 0"));
}

TEST_CASE("a dim that an attribute gives stays a number beside an extent that only the run knows") {
  const std::string text =
      "op A@1(x: f32[(g, c)], w: f32[(g, m), c]) -> y: f32[(g, m)]\n  attr group: int = 1\n  dim g = group\n  y[(g, m)] = sum(x[(g, c)]*w[(g, m), c] for c)\n";
  Expanded x;
  Input free = f32({2}, {1, 2});
  free.symbols = {"channels"};
  const Result<lang::Library> library = parse(text);
  REQUIRE(library.ok());
  lang::Call call;
  call.name = "A";
  expand(x, *library, call, {free, f32({3, 2}, {1, 2, 3, 4, 5, 6})});
  REQUIRE(x.status.ok());
  CHECK(x.function.arrays[x.outputs[0].array].shape[0]->is_int(3));
}

TEST_CASE("a short-time transform takes a real signal with and without its last axis") {
  std::vector<std::vector<float>> answers;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 8, 1}, std::vector<int64_t>{1, 8}}) {
    Expanded x;
    expand_text(x, "", "STFT", {f32(shape, {1, 2, 4, 8, 7, 5, 3, 1}), i64({}, {2}), f32({4}, {1, 2, 3, 4})});
    const nest::Tensor answer = run(x)[0];
    CHECK(answer.shape == std::vector<int64_t>{1, 3, 3, 2});
    answers.push_back(answer.values<float>());
  }
  CHECK(answers[0][0] == 1 + 2*2 + 3*4 + 4*8);
  CHECK(answers[0] == answers[1]);
}

TEST_CASE("attributes are checked by name, presence, type and length") {
  const std::string text =
      "op A@1(x: f32[i...]) -> y: f32[i...]\n  attr need: int; attr list: int[i] = 1; attr real: float = 0.5; attr m: {a, b} = a\n  y[i] = x[i] + need + total(list)\n";
  const std::vector<Input> x{f32({1, 1}, {1})};
  CHECK(floats(text, "A", x, {{"need", int64_t{3}}}) == std::vector<float>{6});
  CHECK(floats(text, "A", x, {{"need", int64_t{3}}, {"list", std::vector<int64_t>{5, 6}}}) == std::vector<float>{15});
  CHECK(says(failure(text, "A", x), "attribute 'need' is missing"));
  CHECK(says(failure(text, "A", x, {{"need", 1.5}}), "attribute 'need' is a float, expected an int"));
  CHECK(says(failure(text, "A", x, {{"need", int64_t{1}}, {"needed", int64_t{1}}}), "unknown attribute 'needed'"));
  CHECK(says(failure(text, "A", x, {{"need", int64_t{1}}, {"m", std::string("c")}}), "attribute 'm' is 'c', expected one of a, b"));
  CHECK(says(failure(text, "A", x, {{"need", int64_t{1}}, {"list", std::vector<int64_t>{1, 2, 3}}}), "attribute 'list' has 3 values, expected 2"));
}

TEST_CASE("a type that no input says has its default") {
  const std::string text = "op A@1<T: float, S: float = T, U: i8 | i16 = i16>(x: T[d], s: S[]?, u: U[]?) -> y: S[d], z: U[d]\n"
                           "  y[d] = S(x[d]) + (present(s) ? s : S(0))\n  z[d] = U(x[d])\n";
  auto types = [&](const std::vector<Input>& inputs) {
    Expanded x;
    expand_text(x, text, "A", inputs, {}, {true, true});
    const auto y = run(x);
    return std::pair(y[0].dtype, y[1].dtype);
  };
  CHECK(types({f32({1}, {1})}) == std::pair(DType::F32, DType::I16));
  CHECK(types({f32({1}, {1}), data<double>(DType::F64, {}, {2})}) == std::pair(DType::F64, DType::I16));
  CHECK(types({f32({1}, {1}), absent(), data<int8_t>(DType::I8, {}, {2})}) == std::pair(DType::F32, DType::I8));
  const std::string narrow = "op A@1<T: num, S: float = T>(x: T[d], s: S[]?) -> y: T[d]\n  y[d] = x[d]\n";
  CHECK(says(failure(narrow, "A", {i64({1}, {1}, false)}), "S, which no input says, has element type i64, expected float"));
}

TEST_CASE("attributes that are graphs are told from others") {
  const std::string text = "op A@1(x: f32[d]) -> y: f32[d]\n  attr g: graph?; attr k: int = 0\n  t[d] = graph g(x)\n  y[d] = t[d] + (present(g) ? 1 : 0)\n";
  const lang::GraphAttr same{[](const std::vector<lang::Value>& inputs) -> Result<std::vector<lang::Value>> { return inputs; }};
  CHECK(floats(text, "A", {f32({1}, {5})}) == std::vector<float>{5});
  CHECK(floats(text, "A", {f32({1}, {5})}, {{"g", same}}) == std::vector<float>{6});
  CHECK(says(failure(text, "A", {f32({1}, {5})}, {{"g", int64_t{1}}}), "attribute 'g' is an int, expected a graph"));
  CHECK(says(failure(text, "A", {f32({1}, {5})}, {{"k", same}}), "attribute 'k' is a graph, expected an int"));
}

TEST_CASE("an element type numbered 0 asks for the default") {
  const std::string text = "op A@1<T: any>(x: T[d...]) -> y: S[d...]\n  attr to: type S = f64\n  y[d] = S(x[d])\n"
                           "op B@1<T: any>(x: T[d...]) -> y: S[d...]\n  attr to: type S\n  y[d] = S(x[d])\n";
  auto type_of = [&](int64_t number) {
    Expanded x;
    expand_text(x, text, "A", {f32({1}, {1})}, {{"to", number}});
    return run(x)[0].dtype;
  };
  CHECK(type_of(0) == DType::F64);
  CHECK(type_of(1) == DType::F32);
  Expanded x;
  expand_text(x, text, "B", {f32({1}, {1})}, {{"to", int64_t{0}}});
  CHECK_FALSE(x.status.ok());
}

TEST_CASE("an axis out of range names what is possible") {
  const std::string text = "op A@1(x: f32[a..., r@axis, b...]) -> y: f32[a..., b...]\n  attr axis: int = -1\n  y[a, b] = sum(x[a, r, b] for r)\n";
  CHECK(floats(text, "A", {f32({2, 2}, {1, 2, 3, 4})}) == std::vector<float>{3, 7});
  CHECK(floats(text, "A", {f32({2, 2}, {1, 2, 3, 4})}, {{"axis", int64_t{0}}}) == std::vector<float>{4, 6});
  CHECK(says(failure(text, "A", {f32({2, 2}, {1, 2, 3, 4})}, {{"axis", int64_t{2}}}), "axis is 2, but input x has rank 2"));
}

TEST_CASE("the first definition whose 'when' and types hold is taken, by version") {
  const std::string text =
      "op A@1(x: f32[d]) -> y: f32[d]\n  y[d] = 1\n"
      "op A@5(x: f32[d]) -> y: f32[d]\n  attr k: int = 0\n  when k == 7\n  y[d] = 7\n"
      "op A@5(x: f32[d]) -> y: f32[d]\n  attr k: int = 0\n  y[d] = 5\n"
      "op A@5(x: i64[d]) -> y: f32[d]\n  attr k: int = 0\n  y[d] = 64\n";
  auto library = parse(text);
  REQUIRE(library.ok());
  auto at = [&](int64_t opset, int64_t k, bool give, const Input& in) {
    lang::Call call;
    call.name = "A";
    call.opset = opset;
    if (give) call.attributes["k"] = k;
    Expanded x;
    expand(x, *library, call, {in});
    return run(x)[0].values<float>()[0];
  };
  const Input x = f32({1}, {0});
  CHECK(at(1, 0, false, x) == 1);
  CHECK(at(4, 0, false, x) == 1);
  CHECK(at(5, 0, false, x) == 5);
  CHECK(at(9, 7, true, x) == 7);
  CHECK(at(9, 7, false, i64({1}, {0}, false)) == 64);
}

TEST_CASE("optional inputs have defaults, and absent results cost nothing") {
  const std::string text = "op A@1<T: num>(x: T[d...], lo: T[]? = lowest) -> y: T[d...], z: T[d...]?\n  y[d] = max(x[d], lo)\n  z[d] = y[d] + 1\n";
  CHECK(floats(text, "A", {f32({2}, {-1, 1})}) == std::vector<float>{-1, 1});
  CHECK(floats(text, "A", {f32({2}, {-1, 1}), absent()}) == std::vector<float>{-1, 1});
  CHECK(floats(text, "A", {f32({2}, {-1, 1}), f32({}, {0})}) == std::vector<float>{0, 1});
  CHECK(floats(text, "A", {f32({2}, {-1, 1}), f32({1}, {0})}) == std::vector<float>{0, 1});
  CHECK(floats(text, "A", {f32({2}, {-1, 1}), f32({0}, {})}) == std::vector<float>{-1, 1});  // of length zero: absent
  Expanded one, two;
  expand_text(one, text, "A", {f32({2}, {-1, 1})});
  expand_text(two, text, "A", {f32({2}, {-1, 1})}, {}, {true, true});
  CHECK(one.function.body.size() == 1);
  CHECK(two.function.body.size() == 2);
  CHECK(run(two)[1].values<float>() == std::vector<float>{0, 2});
}

TEST_CASE("folds take custom combiners with tuples") {
  const std::string text = "op A@1(x: f32[d]) -> v: f32[], at: i64[]\n  v[], at[] = first_max(x[d], d for d)\n";
  Expanded x;
  expand_text(x, text, "A", {f32({5}, {1, 7, 3, 7, 0})}, {}, {true, true});
  auto r = run(x);
  CHECK(r[0].values<float>() == std::vector<float>{7});
  CHECK(r[1].values<int64_t>() == std::vector<int64_t>{1});
}

TEST_CASE("the combiners of the library are associative and commutative, as they are declared") {
  std::mt19937 random(11);
  for (const char* name : {"softsum", "first_max", "last_max", "first_min", "last_min"}) {
    CAPTURE(name);
    const std::string n = name, second = n == "softsum" ? "f32" : "i64";
    const std::string place = n == "softsum" ? "1" : "h*|k| + k", back = n == "softsum" ? "1" : "(|h| - 1 - h)*|k| + |k| - 1 - k";
    const std::string text = "op A@1(x: f32[h, k]) -> a: f32[], b: " + second + "[], c: f32[], d: " + second + "[], e: f32[], f: " + second + "[]\n" +
                             "  a[], b[] = " + n + "(x[h, k], " + place + " for h, k)\n" +
                             "  p[h], q[h] = " + n + "(x[h, k], " + place + " for k)\n" + "  c[], d[] = " + n + "(p[h], q[h] for h)\n" +
                             "  e[], f[] = " + n + "(x[|h| - 1 - h, |k| - 1 - k], " + back + " for h, k)\n";
    for (int round = 0; round < 20; ++round) {
      std::vector<float> values;
      for (int k = 0; k < 24; ++k) values.push_back(static_cast<float>(random() % 9) - 4);  // ties are likely
      Expanded x;
      expand_text(x, text, "A", {f32({4, 6}, values)}, {}, std::vector<bool>(6, true));
      auto r = run(x);
      for (size_t other : {2, 4}) {
        CHECK(r[0].values<float>()[0] == r[other].values<float>()[0]);
        if (second == "i64") CHECK(r[1].values<int64_t>() == r[other + 1].values<int64_t>());
        else CHECK(r[1].values<float>()[0] == doctest::Approx(r[other + 1].values<float>()[0]));
      }
    }
  }
}

TEST_CASE("scans run either way, with or without their own place") {
  const std::string text =
      "op A@1(x: f32[s]) -> y: f32[s]\n  attr exclusive, reverse: int = 0\n  y[s] = scan sum(x[s] for s; exclusive: exclusive == 1, reverse: reverse == 1)\n";
  const std::vector<Input> x{f32({4}, {1, 2, 3, 4})};
  const int64_t one = 1;
  CHECK(floats(text, "A", x) == std::vector<float>{1, 3, 6, 10});
  CHECK(floats(text, "A", x, {{"exclusive", one}}) == std::vector<float>{0, 1, 3, 6});
  CHECK(floats(text, "A", x, {{"reverse", one}}) == std::vector<float>{10, 9, 7, 4});
  CHECK(floats(text, "A", x, {{"reverse", one}, {"exclusive", one}}) == std::vector<float>{9, 7, 4, 0});
  CHECK(floats(text, "A", {f32({1}, {5})}, {{"exclusive", one}}) == std::vector<float>{0});
}

TEST_CASE("site() tells the nodes of a model apart and stays the same from build to build") {
  auto library = parse("op A@1(x: f32[n]) -> y: i64[n]\n  y[n] = site()\n");
  REQUIRE(library.ok());
  auto site = [&](const std::string& source, std::vector<std::string> results) {
    Expanded x;
    lang::Call call;
    call.name = "A";
    call.source = source;
    call.output_names = std::move(results);
    expand(x, *library, call, {f32({1}, {0})});
    return run(x)[0].values<int64_t>()[0];
  };
  CHECK(site("a", {"r"}) == site("a", {"r"}));
  CHECK(site("a", {"r"}) != site("b", {"r"}));
  CHECK(site("a", {"r"}) != site("a", {"s"}));
  CHECK(site("ab", {"c"}) != site("a", {"bc"}));
  CHECK((site("a", {"r"}) >= 0 && site("a", {"r"}) < (int64_t{1} << 32)));
}

TEST_CASE("equal seeds draw equal numbers, nodes without a seed numbers of their own") {
  auto draw = [&](const std::string& source, std::map<std::string, lang::Attribute> attributes) {
    auto library = lang::Library::parse(lang::Library::builtin_files());
    REQUIRE(library.ok());
    Expanded x;
    lang::Call call;
    call.name = "RandomUniform";
    call.opset = 22;
    call.source = source;
    call.attributes = std::move(attributes);
    call.attributes["shape"] = std::vector<int64_t>{4096};
    expand(x, *library, call, {});
    return run(x)[0].values<float>();
  };
  CHECK(draw("a", {{"seed", 7.0}}) == draw("b", {{"seed", 7.0}}));
  CHECK(draw("a", {{"seed", 7.0}}) != draw("a", {{"seed", 7.5}}));
  CHECK(draw("a", {}) == draw("a", {}));
  CHECK(draw("a", {}) != draw("b", {}));
  // the first word of Philox4x32-10 for counter 0 and key 0 is 6627e8d5 (known answer of the authors' Random123)
  CHECK(draw("a", {{"seed", 0.0}})[0] == static_cast<float>(0x6627e8d5u >> 8) / 16777216.0f);
  double sum = 0, squares = 0;
  for (float v : draw("a", {})) {
    CHECK((v >= 0 && v < 1));
    sum += v;
    squares += v * v;
  }
  CHECK(sum / 4096 == doctest::Approx(0.5).epsilon(0.03));
  CHECK(squares / 4096 == doctest::Approx(1.0 / 3).epsilon(0.05));
}

TEST_CASE("pushes combine into places that coincide") {
  const std::string text = "op A@1(x: f32[d], at: i64[q], u: f32[q]) -> y: f32[d]\n  y[d] = x[d]\n  y[at[q]] <- u[q] for q by sum\n";
  CHECK(floats(text, "A", {f32({3}, {1, 2, 3}), i64({3}, {0, 2, 0}, false), f32({3}, {10, 20, 30})}) == std::vector<float>{41, 2, 23});
  CHECK(says(failure("op A@1(x: f32[d]) -> y: f32[d]\n  t[d] = x[d]\n  y[0] <- x[d] for d by sum\n  y[d] = t[d]\n", "A", {f32({3}, {1, 2, 3})}),
             "a push combines into an array that a map has written"));
}

TEST_CASE("procs have loops with bounds, variables, local arrays and may read back what they wrote") {
  const std::string text =
      "op A@1(x: f32[n]) -> y: f32[n]\n"
      "  proc {\n"
      "    alloc used: bool[n]\n"
      "    for n { used[n] = false }\n"
      "    for k in 0..|n| {\n"
      "      var best = -1\n"
      "      for n { if not used[n] and (best < 0 or x[n] > x[best]) { best = n } }\n"
      "      used[best] = true; y[k] = x[best] } }\n";
  CHECK(floats(text, "A", {f32({5}, {3, 1, 4, 1, 5})}) == std::vector<float>{5, 4, 3, 1, 1});
  // A while that would not end is stopped by its bound.
  Expanded x;
  expand_text(x, "op A@1(x: f32[n]) -> y: f32[n]\n  proc {\n    var k = 0\n    while k >= 0 within 10 { k = k + 1 }\n    for n { y[n] = 0 } }\n", "A", {f32({1}, {0})});
  REQUIRE(x.status.ok());
  auto r = nest::interpret(x.function, x.inputs, {.threads = 1});
  CHECK_FALSE(r.ok());
}

TEST_CASE("an array allocated outside of procs is passed from one to the next") {
  const std::string text =
      "op A@1(x: f32[a, n]) -> y: f32[k]\n"
      "  exists k <= |a|\n"
      "  alloc best: f32[a]; alloc has: bool[a]\n"
      "  proc for a { best[a] = max(x[a, n] for n); has[a] = best[a] > 2 }\n"
      "  proc {\n"
      "    var out = 0\n"
      "    for a { if has[a] { y[out] = best[a]; out = out + 1 } }\n"
      "    yield k = out }\n";
  CHECK(floats(text, "A", {f32({3, 2}, {3, 1, 1, 2, -1, 5})}) == std::vector<float>{3, 5});
  CHECK(says(failure("op A@1(x: f32[n]) -> y: f32[n]\n  alloc t: f32[n]; alloc t: f32[n]\n  y[n] = x[n]\n", "A", {f32({1}, {1})}), "a second array t"));
}

TEST_CASE("a fold of a proc has no order, what a variable is assigned step by step has") {
  Expanded x;
  expand_text(x,
              "op A@1(x: f32[n]) -> y: f32[n]\n"
              "  proc {\n"
              "    var s = f32(0)\n"
              "    for n { s = s + x[n] }\n"
              "    let t = sum(x[n] for n)\n"
              "    var k = 0\n"
              "    for n { k = k + i64(x[n]) }\n"
              "    for n { y[n] = s + t + f32(k) } }\n",
              "A", {f32({3}, {1, 2, 3})});
  REQUIRE_MESSAGE(x.status.ok(), x.status.text());
  std::vector<bool> free;
  for (const loop::StmtPtr& s : x.function.body[0].proc->body)
    if (s->kind == loop::StmtKind::For) free.push_back(nest::independent(x.ctx, *s).has_value());
  CHECK(free == std::vector<bool>{false, true, true, true});
}

TEST_CASE("many inputs in a row take turns") {
  const std::string text =
      "op A@1(c: f32[], xs: f32[n@axis] many, by: f32[] many) -> y: f32[t]\n  attr axis: int = 0\n  dim t = total(|n|)\n"
      "  y[before(n) + n] = c + xs[n]*by for each xs\n";
  CHECK(floats(text, "A", {f32({}, {1}), f32({2}, {1, 2}), f32({}, {10}), f32({1}, {3}), f32({}, {100})}) == std::vector<float>{11, 21, 301});
  CHECK(floats("op A@1(xs: f32[d] many, by: f32[] many) -> y: f32[d]\n  y[d] = total([x[d]*by for x in xs])\n", "A",
               {f32({1}, {1}), f32({}, {10}), f32({1}, {2}), f32({}, {100})}) == std::vector<float>{210});
  CHECK(says(failure(text, "A", {f32({}, {1}), f32({2}, {1, 2}), f32({}, {10}), f32({1}, {3})}), "has 2 inputs xs, but 1 inputs by"));
  CHECK(says(refusal("op A@1(xs: f32[d] many, c: f32[], by: f32[] many) -> y: f32[d]\n  y[d] = 1\n"), "the 'many' inputs stand apart"));
}

TEST_CASE("lists of plain numbers stay numbers in arithmetic, comparisons and choices") {
  auto list = [](const std::string& e) {
    return floats("op A@1(x: f32[]) -> y: f32[k]\n  attr v: int[q] = [7, 3, -2]\n  attr r: float[p] = [0.5, 2.0, 4.0]\n  let l = " + e + "\n  dim k = len(l)\n  y[k] = f32(l[k])\n", "A",
                  {f32({}, {0})}, {{"v", std::vector<int64_t>{7, 3, -2}}});
  };
  CHECK(list("v*4 - v + [1, 2, 3]") == std::vector<float>{22, 11, -3});
  CHECK(list("10 - v") == std::vector<float>{3, 7, 12});
  CHECK(list("v // 2") == std::vector<float>{3, 1, -1});
  CHECK(list("r*v") == std::vector<float>{3.5, 6, -8});
  CHECK(list("v >= 3 ? v : r") == std::vector<float>{7, 3, 4});
  CHECK(list("v == 7 or (0 < v and v < 5) ? [1, 1, 1] : [0, 0, 0]") == std::vector<float>{1, 1, 0});
  CHECK(list("[e > 0 ? e : 0.25 for e in v]") == std::vector<float>{7, 3, 0.25});
  CHECK(list("[max(v), min(v), all(v > -3) ? 1 : 0, any(v == 3) ? 1 : 0]") == std::vector<float>{7, -2, 1, 1});
  CHECK(list("pick(rev(v), [0, -1])") == std::vector<float>{-2, 7});
  CHECK(list("put(v, 1, 9)") == std::vector<float>{7, 9, -2});
  CHECK(list("drop(r, [0])") == std::vector<float>{2, 4});
  for (const std::string f : {"min", "max"})
    CHECK(says(failure("op A@1(x: f32[]) -> y: f32[]\n  attr v: int[q]\n  y[] = f32(" + f + "(v))\n", "A", {f32({}, {0})}, {{"v", std::vector<int64_t>{}}}), "of an empty list"));
}

TEST_CASE("a list may have a million items, and lists that multiply end") {
  const std::string head = "op A@1(x: f32[n]) -> y: f32[n]\n  attr v: int[q]\n";
  CHECK(floats(head + "  let l = [v[k] - k for k in 0..len(v)]\n  y[n] = x[n] + f32(l[len(v) - 1])\n", "A", {f32({1}, {0.5})},
               {{"v", std::vector<int64_t>(300000, 300000)}}) == std::vector<float>{1.5});
  CHECK(floats("op A@1(x: f32[n]) -> y: f32[n]\n  let l = [k*2 for k in 0..1000000]\n  y[n] = x[n] + f32(len(l))\n", "A", {f32({1}, {0})}) == std::vector<float>{1e6f});
  CHECK(says(failure(head + "  let l = total([total(slice(v, 0, j)) for j in 0..len(v)])\n  y[n] = x[n] + f32(l)\n", "A", {f32({1}, {0})}, {{"v", std::vector<int64_t>(100000, 1)}}),
             "steps while building"));
}

TEST_CASE("functions and lets that double what they are given end, and the function is named") {
  std::string functions = "fn f0(x) = x + 1\n", lets = "op A@1(x: f32[n]) -> y: f32[n]\n  let a0 = x[n] + 1\n";
  for (int k = 1; k <= 30; ++k) {
    const std::string before = std::to_string(k - 1), now = std::to_string(k);
    functions += "fn f" + now + "(x) = f" + before + "(x) * f" + before + "(x + " + now + ")\n";
    lets += "  let a" + now + " = x[n] > " + now + " ? a" + before + " : a" + before + " + 1\n";
  }
  const auto calling = [&](const std::string& depth) { return functions + "op A@1(x: f32[n]) -> y: f32[n]\n  y[n] = f" + depth + "(x[n])\n"; };
  CHECK(says(failure(calling("30"), "A", {f32({1}, {0})}), "function 'f30' takes more than 16777216 steps while building"));
  CHECK(says(failure(calling("17"), "A", {f32({1}, {0})}), "function 'f17' takes more than"));
  CHECK(says(failure(lets + "  y[n] = a30\n", "A", {f32({1}, {0})}), "its lists and expressions take more than"));
  CHECK(floats(calling("3"), "A", {f32({1}, {0})}) == std::vector<float>{1 * 2 * 3 * 4 * 4 * 5 * 6 * 7.0f});
}

TEST_CASE("lists of numbers are joined by value") {
  auto list = [](const std::string& e, const std::string& more = "") {
    return floats("op A@1(x: f32[]) -> y: f32[k]\n  attr v: int[q] = [7, 3, 7, 5, 3]\n  let l = " + e + "\n  dim k = len(l)\n" + more + "  y[k] = f32(l[k])\n", "A",
                  {f32({}, {0})});
  };
  CHECK(list("find(v, [3, 4, 7])") == std::vector<float>{1, -1, 0});
  CHECK(list("order(v)") == std::vector<float>{1, 4, 3, 0, 2});
  CHECK(list("unique(v)") == std::vector<float>{7, 3, 5});
  CHECK(list("v[order(v)]") == std::vector<float>{3, 3, 5, 7, 7});
  CHECK(list("order([0.5, nan, -1.5, 0.5])") == std::vector<float>{2, 0, 3, 1});
  // Constant arrays too, by the order of their type.
  CHECK(floats("op A@1(x: f32[n]) -> y: f32[n]\n  let l = order(x)\n  y[n] = x[l[n]]\n", "A", {data<float>(DType::F32, {3}, {2.5, -1, 0.5}, true)}) == std::vector<float>{-1, 0.5, 2.5});
  CHECK(says(failure("op A@1(x: f32[n]) -> y: f32[n]\n  let l = order(x)\n  y[n] = x[l[n]]\n", "A", {f32({2}, {1, 2})}), "known while building"));
  CHECK(says(failure("op A@1(x: i64[n]) -> y: f32[n]\n  y[n] = f32(order([x[0], 1])[0])\n", "A", {i64({2}, {1, 2}, false)}), "known while building"));
}

TEST_CASE("many inputs and many outputs") {
  CHECK(floats("op A@1(xs: f32[~d...] many) -> y: f32[d...]\n  y[d] = max([x[d] for x in xs]) + count(xs)\n", "A", {f32({2}, {1, 5}), f32({1}, {3}), f32({}, {2})}) ==
        std::vector<float>{6, 8});
  Expanded x;
  expand_text(x, "op A@1(x: f32[m]) -> ys: f32[n] many\n  dim n = [1, |m| - 1]\n  ys[n] = x[before(n) + n] for each ys\n", "A", {f32({3}, {1, 2, 3})}, {}, {true, true});
  auto r = run(x);
  CHECK(r[0].values<float>() == std::vector<float>{1});
  CHECK(r[1].values<float>() == std::vector<float>{2, 3});
}

TEST_CASE("functions that call each other without end are stopped") {
  CHECK(says(failure("fn f(x) = g(x)\nfn g(x) = f(x)\nop A@1(x: f32[d]) -> y: f32[d]\n  y[d] = f(x[d])\n", "A", {f32({1}, {1})}), "without end"));
}
