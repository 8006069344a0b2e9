// Points of a grid beyond the border.
#include <cmath>

#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

TEST_CASE("a cubic moves each tap to the border, not the point between them") {
  Expanded x(R"(graph "g" { input %x : f32[1, 1, 1, 4] input %grid : f32[1, 1, N, 2]
    %y = ai.onnx.GridSample(%x, %grid) { mode = "bicubic", padding_mode = "border" }
    output %y : f32[*] })");
  const auto y = floats(x.good({f32({1, 1, 1, 4}, {1, 2, 4, 8}), f32({1, 1, 3, 2}, {1.125f, 0, -1.0625f, 0, 0.25f, 0})})[0]);
  const float expected[] = {8.140625f, 0.93408203125f, 4};  // of PyTorch; a point that is moved gives 8 and 1
  REQUIRE(y.size() == 3);
  for (size_t k = 0; k < 3; ++k) CHECK(std::fabs(y[k] - expected[k]) < 1e-5f);
}
