#include <string>

#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {
bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("the built-in texts parse and are in the table by domain, name and version") {
  auto library = lang::Library::parse(lang::Library::builtin_files(), lang::Library::Reading::Whole);
  REQUIRE_MESSAGE(library.ok(), (library.ok() ? "" : library.status().text()));
  using K = lang::Library::Known;
  CHECK(library->knows("", "Relu", 14) == K::Yes);
  CHECK(library->knows("ai.onnx", "Relu", 14) == K::Yes);
  CHECK(library->knows("ai.onnx", "RMSNormalization", 22) == K::OpsetTooOld);
  CHECK(library->knows("ai.onnx", "Rleu", 14) == K::NoSuchOperator);
  bool found = false;
  for (const auto& op : library->operators()) {
    CHECK(op.text.starts_with("op " + op.name));
    found = found || (op.name == "Conv" && op.file == "ops/contraction.mlop" && op.line > 1);
  }
  CHECK(found);
}

TEST_CASE("definitions that are parsed when they are asked for are those of the whole texts") {
  const auto whole = lang::Library::parse(lang::Library::builtin_files(), lang::Library::Reading::Whole);
  const auto found = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(whole.ok());
  REQUIRE(found.ok());
  const auto expected = whole->operators(), actual = found->operators();
  REQUIRE(actual.size() == expected.size());
  for (size_t k = 0; k < actual.size(); ++k) {
    CAPTURE(expected[k].name);
    CHECK(actual[k].domain == expected[k].domain);
    CHECK(actual[k].name == expected[k].name);
    CHECK(actual[k].since == expected[k].since);
    CHECK(actual[k].file == expected[k].file);
    CHECK(actual[k].line == expected[k].line);
    CHECK(actual[k].text == expected[k].text);
    CHECK(found->versions(actual[k].domain, actual[k].name) == whole->versions(actual[k].domain, actual[k].name));
  }
}

TEST_CASE("a user's functions meet those of the built-in texts") {
  const std::string op = "domain own\nop A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = ";
  CHECK(parse(op + "wrap(x[d], 2)\n").ok());
  CHECK(says(refusal(op + "wrap(x[d])\n"), "wrap takes 2 arguments, not 1"));
  CHECK(says(refusal("fn wrap(a, b) = a\n"), "test.mlop:1:1: a second definition of the function wrap"));
  CHECK(parse("domain own\nfn wrap(a) = a\ndomain own\nop A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = wrap(x[d])\n").ok());
  // Here the texts of the domain itself mean another thing by it.
  CHECK(says(refusal("domain com.microsoft\nfn sigmoid(a, b) = a\n"), "sigmoid takes 2 arguments, not 1"));
  CHECK(says(refusal("combiner first_max(v: f32) unit 0\n  join a, b = a\n"), "a second definition of the combiner first_max"));
}

TEST_CASE("a syntax error names file, line and column") {
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = x[d] +\n"), "test.mlop:"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = x[d] $ 2\n"), "test.mlop:2:15: the character '$' has no meaning here"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = x[d] x[d]\n"), "test.mlop:2:15: the statement does not end here"));
  CHECK(says(refusal("op A@1(x: f32[d...) -> y: f32[d...]\n  y[d] = x[d]\n"), "']' expected"));
  CHECK(says(refusal("op A(x: f32[d...]) -> y: f32[d...]\n  y[d] = x[d]\n"), "'@' expected"));
  CHECK(says(refusal("hello\n"), "'op', 'fn', 'combiner', 'clauses' or 'domain' expected"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = \"abc\n"), "without its closing quote"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = 99999999999999999999\n"), "is not a number"));
}

TEST_CASE("a deeper line continues a statement, an equal one begins the next") {
  CHECK(parse("op A@1(x: f32[d...])\n    -> y: f32[d...]\n  let a = 1 +\n    2\n  y[d] = x[d]\n    + a\n").ok());
  CHECK(parse("op A@1(x: f32[d...]) -> y: f32[d...]\n  let a = 1; let b = 2\n  y[d] = x[d] + a + b\n").ok());
  CHECK(parse("op A@1(x: f32[d...]) -> y: f32[d...]   # comment\n\n  # another\n  y[d] = x[d]\n").ok());
}

TEST_CASE("nesting is bounded, however it is written") {
  for (const char* open : {"(", "[", "-", "not ", "abs(", "x[", "true ? 1 : ", "let a = 1 in "}) {
    std::string text = "op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = ";
    for (int k = 0; k < 100000; ++k) text += open;
    CHECK(says(refusal(text), "nested"));
  }
  std::string text = "op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = x[d]";
  for (int k = 0; k < 100000; ++k) text += " + x[d]";
  CHECK(says(refusal(text + "\n"), "nested too deeply"));
  text = "op A@1(x: f32[d...]) -> y: f32[d...]\n  proc {";
  for (int k = 0; k < 100000; ++k) text += "if true {";
  CHECK(says(refusal(text), "nested too deeply"));
}

TEST_CASE("every prefix of the library is either a library or an error, never a crash") {
  std::string all;
  for (const auto& f : lang::Library::builtin_files())
    if (f.name == "ops/common.mlop" || f.name == "ops/indexing.mlop") all += f.text;
  size_t parsed = 0;
  for (size_t n = 0; n < all.size(); n += 29) parsed += lang::Library::parse({{"prefix", all.substr(0, n)}}).ok();
  CHECK(parsed > 0);
}

TEST_CASE("names are checked before any call") {
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = z + x[d]\n"), "test.mlop:2:10: unknown name 'z'"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = foo(x[d])\n"), "unknown function 'foo'"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = sum(x[d] for q)\n"), "'q', which is no dim"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = mean(x[d] for d)\n"), "unknown combiner 'mean'"));
  CHECK(says(refusal("op A@1(x: Q[d...]) -> y: Q[d...]\n  y[d] = x[d]\n"), "unknown element type 'Q'"));
  CHECK(says(refusal("op A@1<T: thing>(x: T[d...]) -> y: T[d...]\n  y[d] = x[d]\n"), "'thing' is no class"));
  CHECK(says(refusal("op A@1<T: num, S: num = R>(x: T[d...]) -> y: T[d...]\n  y[d] = x[d]\n"), "'R' is no element type and no variable before S"));
  CHECK(says(refusal("combiner c<T: num = f32>(a: T) unit 0\n  join a, b = a.a + b.a\n"), "the types of a combiner have no defaults"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  y[d] = |e|\n"), "there is no dim 'e'"));
  CHECK(says(refusal("op A@1(x: f32[d@where]) -> y: f32[d]\n  y[d] = x[d]\n"), "no attribute that could hold an axis"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...], z: f32[d...]\n  y[d] = x[d]\n"), "result z is never written"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[e...]\n  y[e] = x[e]\n"), "the extent of e of result y is never given"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  x[d] = 1\n  y[d] = x[d]\n"), "input x cannot be written"));
  CHECK(says(refusal("fn abs(x) = x\n"), "abs is a built-in function"));
  CHECK(says(refusal("fn f(x) = x\nfn f(x) = -x\n"), "a second definition of the function f"));
  CHECK(says(refusal("fn f(x) = y\n"), "unknown name 'y'"));
  CHECK(says(refusal("op A@1(x: f32[d...]) -> y: f32[d...]\n  attr m: {a, b} = c\n  y[d] = x[d]\n"), "none of its cases"));
}

TEST_CASE("a match covers every case of its attribute that 'when' leaves") {
  const std::string head = "op A@1(x: f32[d...]) -> y: f32[d...]\n  attr m: {a, b, c} = a\n";
  CHECK(says(refusal(head + "  y[d] = match m { a => x[d]; b => 1 }\n"), "'match' on m has no case for c"));
  CHECK(says(refusal(head + "  y[d] = match m { a => x[d]; b => 1; c => 2; e => 3 }\n"), "'e' is no case of m"));
  CHECK(parse(head + "  when m != c\n  y[d] = match m { a => x[d]; b => 1 }\n").ok());
  CHECK(parse(head + "  when m == a or m == b\n  y[d] = match m { a => x[d]; b => 1 }\n").ok());
}

TEST_CASE("a graph is called by a statement, with arrays that are there") {
  const std::string head = "op A@1(x: f32[d]) -> y: f32[d]\n  attr g: graph\n";
  CHECK(parse(head + "  check present(g)\n  t[d], u[d] = graph g(x, x)\n  y[d] = t[d] + u[d]\n").ok());
  CHECK(says(refusal(head + "  t[d] = graph x(x)\n  y[d] = t[d]\n"), "'x' is no attribute that holds a graph"));
  CHECK(says(refusal(head + "  t[d] = graph g(z)\n  y[d] = x[d]\n"), "given 'z', which is no array"));
  CHECK(says(refusal(head + "  y[d] = graph g(x)\n"), "write the result y in a statement behind it"));
  CHECK(says(refusal(head + "  y[d] = g\n"), "unknown name 'g'"));
  CHECK(says(refusal("op A@1(x: f32[d]) -> y: f32[d]\n  attr g: graph = 1\n  y[d] = x[d]\n"), "a graph is no list and has no default"));
}

TEST_CASE("a proc stores to results and its own arrays only") {
  CHECK(says(refusal("op A@1(x: f32[d]) -> y: f32[d]\n  proc { for d { x[d] = 1 } }\n"), "input x cannot be written"));
  CHECK(says(refusal("op A@1(x: f32[d]) -> y: f32[d]\n  t[d] = x[d]\n  proc { for d { t[d] = 1 } }\n"), "t is neither"));
}

TEST_CASE("a later file's definition of one version is tried first") {
  auto library = parse("op Relu@6<T: num>(x: T[d...]) -> y: T[d...]\n  y[d] = x[d] + 7\n");
  REQUIRE(library.ok());
  lang::Call call;
  call.name = "Relu";
  call.opset = 14;
  Expanded x;
  expand(x, *library, call, {f32({2}, {-1, 1})});
  CHECK(run(x)[0].values<float>() == std::vector<float>{6, 8});
}
