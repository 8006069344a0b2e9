#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {
size_t list_controls(const Expanded& x) {
  size_t n = 0;
  for (const auto& s : x.function.body) n += s.control && s.control->kind >= StepOp::ListMake && s.control->kind != StepOp::Read;
  return n;
}
}  // namespace

TEST_CASE("a sequence that is known while building leaves no list behind") {
  Expanded x(R"(graph "g" {
    input %x : f32[N]
    input %y : f32[M]
    %first = ai.onnx.Constant() {value_int = 0}
    %last = ai.onnx.Constant() {value_int = -1}
    %s = ai.onnx.SequenceConstruct(%x, %y, %x)
    %t = ai.onnx.SequenceErase(%s, %first)
    %u = ai.onnx.SequenceInsert(%t, %y, %last)
    %n = ai.onnx.SequenceLength(%u)
    %at = ai.onnx.SequenceAt(%u, %last)
    %all = ai.onnx.ConcatFromSequence(%u) {axis = 0}
    output %n : i64[]
    output %at : f32[*]
    output %all : f32[*]
  })");
  CHECK(list_controls(x) == 0);
  const auto r = x.good({f32({2}, {1, 2}), f32({1}, {3})});
  CHECK(r[0].values<int64_t>() == std::vector<int64_t>{3});
  CHECK(floats(r[1]) == std::vector<float>{1, 2});
  CHECK(floats(r[2]) == std::vector<float>{3, 3, 1, 2});
}

TEST_CASE("sequences of the interface, and positions that only the run knows") {
  Expanded x(R"(graph "g" {
    input %s : list(f32[?, 2])
    input %i : i64[]
    input %x : f32[N, 2]
    %longer = ai.onnx.SequenceInsert(%s, %x, %i)
    %at = ai.onnx.SequenceAt(%longer, %i)
    %twice = ai.onnx.Add(%at, %at)
    %n = ai.onnx.SequenceLength(%longer)
    %shorter = ai.onnx.SequenceErase(%longer)
    %all = ai.onnx.ConcatFromSequence(%longer) {axis = -2}
    output %longer : list(f32[?, 2])
    output %twice : f32[*]
    output %n : i64[]
    output %shorter : list(f32[?, 2])
    output %all : f32[?, 2]
  })");
  const Tensor a = f32({1, 2}, {1, 2}), b = f32({2, 2}, {3, 4, 5, 6}), c = f32({1, 2}, {7, 8});
  auto r = x.good({list({a, b}), i64({}, {0}), c});
  CHECK(same(r[0], list({c, a, b})));
  CHECK(floats(r[1]) == std::vector<float>{14, 16});
  CHECK(r[2].values<int64_t>() == std::vector<int64_t>{3});
  CHECK(same(r[3], list({c, a})));
  CHECK(floats(r[4]) == std::vector<float>{7, 8, 1, 2, 3, 4, 5, 6});
  r = x.good({list({a, b}), i64({}, {-1}), c});
  CHECK(same(r[0], list({a, c, b})));
  CHECK(floats(r[1]) == std::vector<float>{6, 8, 10, 12});
  x.bad({list({a, b}), i64({}, {4}), c}, "position 4");
  x.bad({list({a, f32({1}, {1})}), i64({}, {0}), c}, "different rank");
  x.bad({list({a, i64({1, 2}, {1, 2})}), i64({}, {0}), c}, "not the list");
  x.bad({a, i64({}, {0}), c}, "not the list");
}

TEST_CASE("pieces of a tensor: known ones are tensors, others a list of the run") {
  const auto text = [](const std::string& type, const std::string& call) {
    return "graph \"g\" { input %x : f32[" + type + "] input %l : i64[K] input %one : i64[] %three = ai.onnx.Constant() {value_int = 3} %s = ai.onnx.SplitToSequence(" + call +
           " %i = ai.onnx.Constant() {value_int = 1} %at = ai.onnx.SequenceAt(%s, %i) output %s : list(f32[*]) output %at : f32[*] }";
  };
  const Tensor x = f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), one = i64({}, {2}), lengths = i64({2}, {3, 1});
  const Tensor left = f32({2, 3}, {1, 2, 3, 5, 6, 7}), right = f32({2, 1}, {4, 8});
  for (const char* type : {"2, 4", "2, N"}) {
    Expanded equal(text(type, "%x, %three) {axis = 1}"));
    const auto r = equal.good({x, lengths, one});
    CHECK(same(r[0], list({left, right})));
    CHECK(same(r[1], right));
    Expanded given(text(type, "%x, %l) {axis = -1}"));
    CHECK(same(given.good({x, lengths, one})[0], list({left, right})));
    given.bad({x, i64({2}, {3, 2}), one}, "do not add up");
    Expanded dropped(text(type, "%x) {axis = 1, keepdims = 0}"));
    CHECK(same(dropped.good({x, lengths, one})[1], f32({2}, {2, 6})));
  }
  CHECK(list_controls(Expanded(text("2, N", "%x, %l) {axis = 1}"))) == 2);  // the split and the place
}

TEST_CASE("SequenceMap runs its body over sequences of any length") {
  const auto text = [](const std::string& build) {
    return R"(graph "g" {
      input %s : list(f32[?])
      input %k : f32[]
      )" + build + R"(
      %out, %shapes = ai.onnx.SequenceMap(%in, %k) {
        body = graph "body" {
          input %x : f32[*]
          input %y : f32[]
          %z = ai.onnx.Mul(%x, %y)
          %shape = ai.onnx.Shape(%x)
          output %z : f32[?]
          output %shape : i64[1]
        }
      }
      output %out : list(f32[?])
      output %shapes : list(i64[1])
    })";
  };
  const Tensor a = f32({1}, {1}), b = f32({2}, {2, 3});
  Expanded x(text("%in = ai.onnx.Identity(%s)"));
  CHECK(x.controls(StepOp::Loop) == 1);
  const auto r = x.good({list({a, b}), f32({}, {10})});
  CHECK(same(r[0], list({f32({1}, {10}), f32({2}, {20, 30})})));
  CHECK(same(r[1], Tensor::list(DType::I64, {i64({1}, {1}), i64({1}, {2})})));
  CHECK(x.good({list({}), f32({}, {10})})[0].items.empty());
  Expanded known(text("%in = ai.onnx.SequenceConstruct(%k)"));
  CHECK(known.controls(StepOp::Loop) == 0);
  CHECK(same(known.good({list({a}), f32({}, {10})})[0], list({f32({}, {100})})));
}

TEST_CASE("an optional is there or is not, and a branch may decide") {
  Expanded x(R"(graph "g" {
    input %o : optional(f32[?])
    input %other : f32[1]
    %there = ai.onnx.OptionalHasElement(%o)
    %y = ai.onnx.If(%there) {
      then_branch = graph "then" {
        %v = ai.onnx.OptionalGetElement(%o)
        output %v : f32[*]
      }
      else_branch = graph "else" {
        output %other : f32[*]
      }
    }
    output %there : bool[]
    output %y : f32[*]
  })", "18");
  auto r = x.good({list({f32({2}, {1, 2})}), f32({1}, {5})});
  CHECK(same(r[0], truth(true)));
  CHECK(floats(r[1]) == std::vector<float>{1, 2});
  r = x.good({list({}), f32({1}, {5})});
  CHECK(same(r[0], truth(false)));
  CHECK(floats(r[1]) == std::vector<float>{5});
  Expanded known(R"(graph "g" {
    input %x : f32[N]
    %none = ai.onnx.Optional() {type = type f32[?]}
    %some = ai.onnx.Optional(%x)
    %a = ai.onnx.OptionalHasElement(%none)
    %b = ai.onnx.OptionalHasElement(%some)
    %y = ai.onnx.OptionalGetElement(%some)
    output %a : bool[]
    output %b : bool[]
    output %y : f32[*]
    output %none : optional(f32[?])
  })", "18");
  r = known.good({f32({1}, {4})});
  CHECK(same(r[0], truth(false)));
  CHECK(same(r[1], truth(true)));
  CHECK(floats(r[2]) == std::vector<float>{4});
  CHECK((r[3].list_depth == 1 && r[3].items.empty()));
}

TEST_CASE("lists go through loops and branches, with items that grow apart") {
  Expanded x(R"(graph "g" {
    input %n : i64[]
    %none = ai.onnx.SequenceEmpty()
    %s = ai.onnx.Loop(%n, _, %none) {
      body = graph "body" {
        input %i : i64[]
        input %go : bool[]
        input %l : list(f32[*])
        %ax = ai.onnx.Constant() {value_ints = [-1]}
        %shape = ai.onnx.Reshape(%i, %ax)
        %v = ai.onnx.ConstantOfShape(%shape)
        %longer = ai.onnx.SequenceInsert(%l, %v)
        output %go : bool[]
        output %longer : list(f32[*])
      }
    }
    %two = ai.onnx.Constant() {value_int = 2}
    %c = ai.onnx.Less(%n, %two)
    %t = ai.onnx.If(%c) {
      then_branch = graph "then" {
        output %none : list(f32[*])
      }
      else_branch = graph "else" {
        output %s : list(f32[*])
      }
    }
    %last = ai.onnx.SequenceLength(%t)
    output %t : list(f32[?])
    output %last : i64[]
  })");
  const auto r = x.good({i64({}, {3})});
  CHECK(same(r[0], list({f32({0}, {}), f32({1}, {0}), f32({2}, {0, 0})})));
  CHECK(x.good({i64({}, {1})})[0].items.empty());
}

TEST_CASE("wrong uses of lists are named") {
  const auto says = [](const std::string& body, const std::string& words) {
    Expanded x("graph \"g\" { input %s : list(f32[?]) input %bare : list(f32[*]) input %x : f32[N] input %i : i64[] " + body + " output %y : f32[*] }");
    CHECK_MESSAGE(x.status.text().find(words) != std::string::npos, x.status.text(), " should say ", words);
  };
  says("%y = ai.onnx.Neg(%s)", "input 's' is a list of f32, a tensor is expected");
  says("%y = ai.onnx.SequenceAt(%x, %i)", "a sequence is expected");
  says("%y = ai.onnx.SequenceAt(%bare, %i)", "the rank of the items of a sequence is not known");
  says("%t = ai.onnx.SequenceInsert(%s, %i) %y = ai.onnx.SequenceAt(%t, %i)", "is inserted into a list of f32");
  says("%c = ai.onnx.Constant() {value_int = 3} %t = ai.onnx.SequenceConstruct(%x) %y = ai.onnx.SequenceAt(%t, %c)", "position 3 in a sequence of 1");
  says("%t = ai.onnx.SequenceConstruct(%x, %i) %y = ai.onnx.SequenceAt(%t, %i)", "different element types");
  says("%t = ai.onnx.SequenceEmpty() %y = ai.onnx.ConcatFromSequence(%t) {axis = 0}", "an empty sequence is concatenated");
  says("%y = ai.onnx.OptionalGetElement(_)", "the optional is empty");
  says("%y = ai.onnx.Optional()", "wants the attribute 'type'");
}
