#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {

std::vector<std::string> names(const nest::Function& f, const std::vector<uint32_t>& arrays) {
  std::vector<std::string> out;
  for (uint32_t a : arrays) out.push_back(f.arrays[a].name);
  return out;
}

}  // namespace

TEST_CASE("inputs and outputs keep their names, whatever the texts of operators call their own values") {
  // Softmax has values called m, e and s; what stands before the outputs takes these names first.
  Expanded x(R"(graph "g" {
  input %x : f32[2, 3]
  %a = ai.onnx.Softmax(%x)
  %e = ai.onnx.Neg(%a)
  %s = ai.onnx.Softmax(%e)
  %m = ai.onnx.Neg(%s)
  output %e : f32[2, 3]
  output %m : f32[2, 3]
})");
  CHECK(names(x.function, x.function.inputs) == std::vector<std::string>{"x"});
  CHECK(names(x.function, x.function.outputs) == std::vector<std::string>{"e", "m"});
  const auto y = x.good({f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  CHECK(floats(y[0])[0] == doctest::Approx(-0.09003));
}

TEST_CASE("an input that is given back as it is keeps its name") {
  Expanded x(R"(graph "g" { input %x : f32[2] %y = ai.onnx.Neg(%x) output %x : f32[2] output %y : f32[2] })");
  CHECK(names(x.function, x.function.inputs) == std::vector<std::string>{"x"});
  CHECK(names(x.function, x.function.outputs) == std::vector<std::string>{"x", "y"});
}
