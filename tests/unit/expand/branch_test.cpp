#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {

// x twice as long, or as it is.
const char* kTwice = R"(graph "g" {
  input %c : bool[]
  input %x : f32[N]
  %y = ai.onnx.If(%c) {
    then_branch = graph "then" {
      %a = ai.onnx.Concat(%x, %x) {axis = 0}
      output %a : f32[*]
    }
    else_branch = graph "else" {
      %b = ai.onnx.Neg(%x)
      output %b : f32[*]
    }
  }
  %z = ai.onnx.Add(%y, %y)
  output %z : f32[*]
})";

}  // namespace

TEST_CASE("an If takes the branch that its condition says, and its result has that branch's extent") {
  Expanded x(kTwice);
  CHECK(x.controls(StepOp::Branch) == 1);
  const auto a = x.good({truth(true), f32({2}, {1, 2})});
  CHECK(a[0].shape == std::vector<int64_t>{4});
  CHECK(floats(a[0]) == std::vector<float>{2, 4, 2, 4});
  const auto b = x.good({truth(false), f32({2}, {1, 2})});
  CHECK(floats(b[0]) == std::vector<float>{-2, -4});
  CHECK(x.good({truth(true), f32({0}, {})})[0].shape == std::vector<int64_t>{0});
}

TEST_CASE("the branch that a constant condition takes is expanded in place, whatever the other one says") {
  Expanded x(R"(graph "g" {
    input %x : f32[N, 3]
    %s = ai.onnx.Shape(%x)
    %i = ai.onnx.Constant() {value_int = 1}
    %n = ai.onnx.Gather(%s, %i)
    %three = ai.onnx.Constant() {value_int = 3}
    %c = ai.onnx.Equal(%n, %three)
    %y = ai.onnx.If(%c) {
      then_branch = graph "then" {
        %a = ai.onnx.Neg(%x)
        output %a : f32[*]
      }
      else_branch = graph "else" {
        %b = ai.onnx.NoSuchOperator(%x)
        output %b : f32[*]
      }
    }
    output %y : f32[*]
  })");
  CHECK(x.controls(StepOp::Branch) == 0);
  CHECK(floats(x.good({f32({1, 3}, {1, 2, 3})})[0]) == std::vector<float>{-1, -2, -3});
}

TEST_CASE("bodies see values and constants two levels up, and extents of symbols around them") {
  Expanded x(R"(graph "g" {
    input %c : bool[]
    input %d : bool[]
    input %x : f32[N]
    %k = ai.onnx.Constant() {value_float = 10.0}
    %twice = ai.onnx.Add(%x, %x)
    %y = ai.onnx.If(%c) {
      then_branch = graph "outer" {
        %own = ai.onnx.Neg(%x)
        %t = ai.onnx.If(%d) {
          then_branch = graph "inner" {
            %p = ai.onnx.Mul(%twice, %k)
            %q = ai.onnx.Add(%p, %own)
            output %q : f32[*]
          }
          else_branch = graph "other" {
            output %own : f32[*]
          }
        }
        output %t : f32[*]
      }
      else_branch = graph "as it is" {
        output %x : f32[*]
      }
    }
    output %y : f32[*]
  })");
  CHECK(ir::to_string(x.function.arrays[x.function.outputs[0]].shape[0]) == "$N");
  CHECK(floats(x.good({truth(true), truth(true), f32({2}, {1, 2})})[0]) == std::vector<float>{19, 38});
  CHECK(floats(x.good({truth(true), truth(false), f32({2}, {1, 2})})[0]) == std::vector<float>{-1, -2});
  CHECK(floats(x.good({truth(false), truth(true), f32({2}, {1, 2})})[0]) == std::vector<float>{1, 2});
}

TEST_CASE("branches whose results differ in more than extents are named") {
  const auto branches = [](const std::string& a, const std::string& b) {
    return "graph \"g\" { input %c : bool[] input %x : f32[2, 1] %ax = ai.onnx.Constant() {value_ints = [1]} %y = ai.onnx.If(%c) "
           "{ then_branch = graph \"t\" { %a = " + a + " output %a : f32[*] } else_branch = graph \"e\" { %b = " + b + " output %b : f32[*] } } output %y : f32[*] }";
  };
  CHECK(Expanded(branches("ai.onnx.Squeeze(%x, %ax)", "ai.onnx.Neg(%x)")).status.text().find("'y' is f32[2] in one branch and f32[2, 1]") != std::string::npos);
  CHECK(Expanded(branches("ai.onnx.Cast(%x) {to = 7}", "ai.onnx.Neg(%x)")).status.text().find("'y' is i64[2, 1] in one branch") != std::string::npos);
  CHECK(Expanded(branches("ai.onnx.NoSuchOperator(%x)", "ai.onnx.Neg(%x)")).status.text().find("NoSuchOperator") != std::string::npos);
}

TEST_CASE("a choice between ranks that only extents decide is settled while building and checked at run time") {
  Expanded x(R"(graph "g" {
    input %x : f32[N, M]
    %s = ai.onnx.Shape(%x)
    %i = ai.onnx.Constant() {value_int = 1}
    %n = ai.onnx.Gather(%s, %i)
    %one = ai.onnx.Constant() {value_int = 1}
    %c = ai.onnx.Equal(%n, %one)
    %ax = ai.onnx.Constant() {value_ints = [1]}
    %y = ai.onnx.If(%c) {
      then_branch = graph "then" {
        %a = ai.onnx.Squeeze(%x, %ax)
        output %a : f32[*]
      }
      else_branch = graph "else" {
        output %x : f32[*]
      }
    }
    output %y : f32[*]
  })");
  CHECK(x.good({f32({1, 2}, {1, 2})})[0].shape == std::vector<int64_t>{1, 2});
  x.bad({f32({2, 1}, {1, 2})}, "take the else branch");
}

TEST_CASE("a choice between ranks goes the way that the rest of the graph needs") {
  Expanded x(R"(graph "g" {
    input %x : f32[N, M]
    %s = ai.onnx.Shape(%x)
    %i = ai.onnx.Constant() {value_int = 1}
    %n = ai.onnx.Gather(%s, %i)
    %one = ai.onnx.Constant() {value_int = 1}
    %c = ai.onnx.Equal(%n, %one)
    %ax = ai.onnx.Constant() {value_ints = [1]}
    %y = ai.onnx.If(%c) {
      then_branch = graph "then" {
        %a = ai.onnx.Squeeze(%x, %ax)
        output %a : f32[*]
      }
      else_branch = graph "else" {
        output %x : f32[*]
      }
    }
    %z = ai.onnx.Transpose(%y) {perm = [0]}
    output %z : f32[*]
  })");
  CHECK(x.good({f32({2, 1}, {1, 2})})[0].shape == std::vector<int64_t>{2});
  x.bad({f32({1, 2}, {1, 2})}, "the model is built for inputs whose shapes take the then branch");
}

TEST_CASE("a body lacks nothing: missing branches, inputs and outputs are refused") {
  CHECK(Expanded(R"(graph "g" { input %c : bool[] %y = ai.onnx.If(%c) { then_branch = graph "t" { output %c : bool[] } } output %y : bool[] })")
            .status.text().find("attribute 'else_branch' is missing") != std::string::npos);
  CHECK(Expanded(R"(graph "g" { input %c : bool[] %y = ai.onnx.If(%c) { then_branch = graph "t" { } else_branch = graph "e" { } } output %y : bool[] })")
            .status.text().find("has fewer outputs than the node") != std::string::npos);
  CHECK(Expanded(R"(graph "g" { input %c : f32[] %y = ai.onnx.If(%c) { then_branch = graph "t" { output %c : f32[] } else_branch = graph "e" { output %c : f32[] } } output %y : f32[] })")
            .status.text().find("bool is expected") != std::string::npos);
}
