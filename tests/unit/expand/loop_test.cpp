#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

TEST_CASE("a loop carries a value that grows, and collects one that does not") {
  Expanded x(R"(graph "g" {
    input %n : i64[]
    input %x : f32[N]
    %true = ai.onnx.Constant() {value_int = 1}
    %c = ai.onnx.Cast(%true) {to = 9}
    %all, %sums = ai.onnx.Loop(%n, %c, %x) {
      body = graph "body" {
        input %i : i64[]
        input %go : bool[]
        input %v : f32[*]
        %on = ai.onnx.Identity(%go)
        %f = ai.onnx.Cast(%i) {to = 1}
        %ax = ai.onnx.Constant() {value_ints = [0]}
        %f1 = ai.onnx.Unsqueeze(%f, %ax)
        %longer = ai.onnx.Concat(%v, %f1) {axis = 0}
        %sum = ai.onnx.ReduceSum(%longer) {keepdims = 0}
        output %on : bool[]
        output %longer : f32[*]
        output %sum : f32[]
      }
    }
    output %all : f32[*]
    output %sums : f32[*]
  })");
  const auto r = x.good({i64({}, {3}), f32({2}, {10, 20})});
  CHECK(floats(r[0]) == std::vector<float>{10, 20, 0, 1, 2});
  CHECK(floats(r[1]) == std::vector<float>{30, 31, 33});
  const auto none = x.good({i64({}, {0}), f32({2}, {10, 20})});
  CHECK(floats(none[0]) == std::vector<float>{10, 20});
  CHECK(none[1].shape == std::vector<int64_t>{0});
  CHECK(x.good({i64({}, {-5}), f32({2}, {10, 20})})[1].shape == std::vector<int64_t>{0});
}

TEST_CASE("a loop without a trip count runs while its condition holds, and forgets values of earlier runs") {
  // Doubles until above 100; the number of doublings decides the shape of what is collected.
  Expanded x(R"(graph "g" {
    input %x : f32[]
    input %c : bool[]
    %y, %steps = ai.onnx.Loop(_, %c, %x) {
      body = graph "body" {
        input %i : i64[]
        input %go : bool[]
        input %v : f32[]
        %w = ai.onnx.Add(%v, %v)
        %limit = ai.onnx.Constant() {value_float = 100.0}
        %on = ai.onnx.Less(%w, %limit)
        output %on : bool[]
        output %w : f32[]
        output %i : i64[]
      }
    }
    output %y : f32[]
    output %steps : i64[*]
  })");
  const auto r = x.good({f32({}, {7}), truth(true)});
  CHECK(floats(r[0]) == std::vector<float>{112});
  CHECK(r[1].values<int64_t>() == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(floats(x.good({f32({}, {7}), truth(false)})[0]) == std::vector<float>{7});
  x.bad({f32({}, {0}), truth(true)}, "runs more than");
}

TEST_CASE("a number that a loop carries is not taken for what it was at first") {
  // x[0:k] with k = 1, 2, 3: sizes read inside of the body.
  Expanded x(R"(graph "g" {
    input %x : f32[5]
    input %n : i64[]
    %one = ai.onnx.Constant() {value_ints = [1]}
    %k = ai.onnx.Identity(%one)
    %last, %sums = ai.onnx.Loop(%n, _, %k) {
      body = graph "body" {
        input %i : i64[]
        input %go : bool[]
        input %end : i64[1]
        %zero = ai.onnx.Constant() {value_ints = [0]}
        %part = ai.onnx.Slice(%x, %zero, %end)
        %sum = ai.onnx.ReduceSum(%part) {keepdims = 0}
        %next = ai.onnx.Add(%end, %one)
        output %go : bool[]
        output %next : i64[1]
        output %sum : f32[]
      }
    }
    output %last : i64[1]
    output %sums : f32[*]
  })");
  const auto r = x.good({f32({5}, {1, 2, 4, 8, 16}), i64({}, {3})});
  CHECK(floats(r[1]) == std::vector<float>{1, 3, 7});
  CHECK(r[0].values<int64_t>() == std::vector<int64_t>{4});
}

TEST_CASE("a loop that runs exactly once or never is no loop") {
  const auto text = [](int trips) {
    return R"(graph "g" {
      input %x : f32[N]
      %n = ai.onnx.Constant() {value_int = )" + std::to_string(trips) + R"(}
      %y = ai.onnx.Loop(%n, _, %x) {
        body = graph "body" {
          input %i : i64[]
          input %go : bool[]
          input %v : f32[*]
          %w = ai.onnx.Neg(%v)
          output %go : bool[]
          output %w : f32[*]
        }
      }
      output %y : f32[*]
    })";
  };
  for (int trips : {0, 1, 2}) {
    Expanded x(text(trips));
    CHECK(x.controls(StepOp::Loop) == (trips == 2 ? 1 : 0));
    CHECK(floats(x.good({f32({1}, {3})})[0]) == std::vector<float>{trips == 1 ? -3.0f : 3.0f});
  }
}

TEST_CASE("a loop in a loop captures from both") {
  Expanded x(R"(graph "g" {
    input %x : f32[N]
    input %n : i64[]
    %zero = ai.onnx.Constant() {value_float = 0.0}
    %y = ai.onnx.Loop(%n, _, %zero) {
      body = graph "outer" {
        input %i : i64[]
        input %go : bool[]
        input %v : f32[]
        %f = ai.onnx.Cast(%i) {to = 1}
        %w = ai.onnx.Loop(%n, _, %v) {
          body = graph "inner" {
            input %j : i64[]
            input %on : bool[]
            input %u : f32[]
            %s = ai.onnx.ReduceSum(%x) {keepdims = 0}
            %t = ai.onnx.Mul(%s, %f)
            %r = ai.onnx.Add(%u, %t)
            output %on : bool[]
            output %r : f32[]
          }
        }
        output %go : bool[]
        output %w : f32[]
      }
    }
    output %y : f32[]
  })");
  CHECK(floats(x.good({f32({2}, {1, 2}), i64({}, {3})})[0]) == std::vector<float>{27});  // 3 * (0 + 3 + 6)
}

TEST_CASE("what a body gives must fit what the loop carries") {
  const auto text = [](const std::string& result) {
    return "graph \"g\" { input %x : f32[N] input %n : i64[] %y = ai.onnx.Loop(%n, _, %x) { body = graph \"b\" { input %i : i64[] input %go : bool[] "
           "input %v : f32[*] %ax = ai.onnx.Constant() {value_ints = [0]} %w = " + result + " output %go : bool[] output %w : f32[*] } } output %y : f32[*] }";
  };
  CHECK(Expanded(text("ai.onnx.Unsqueeze(%v, %ax)")).status.text().find("only extents may change") != std::string::npos);
  CHECK(Expanded(text("ai.onnx.Cast(%v) {to = 7}")).status.text().find("only extents may change") != std::string::npos);
}

TEST_CASE("a scan runs forward and backward, along any axis, and its results may be turned") {
  const auto text = [](int in_axis, int in_reverse, int out_axis, int out_reverse) {
    return R"(graph "g" {
      input %x : f32[A, B]
      input %s : f32[M]
      %last, %all = ai.onnx.Scan(%s, %x) {
        num_scan_inputs = 1
        scan_input_axes = [)" + std::to_string(in_axis) + "] scan_input_directions = [" + std::to_string(in_reverse) + "] scan_output_axes = [" +
           std::to_string(out_axis) + "] scan_output_directions = [" + std::to_string(out_reverse) + R"(]
        body = graph "body" {
          input %state : f32[*]
          input %row : f32[*]
          %next = ai.onnx.Add(%state, %row)
          %same = ai.onnx.Identity(%next)
          output %next : f32[*]
          output %same : f32[?]
        }
      }
      output %last : f32[*]
      output %all : f32[*]
    })";
  };
  const Tensor x = f32({2, 3}, {1, 2, 3, 10, 20, 30});
  {
    Expanded e(text(0, 0, 0, 0));
    const auto r = e.good({x, f32({3}, {0, 0, 0})});
    CHECK(floats(r[0]) == std::vector<float>{11, 22, 33});
    CHECK(floats(r[1]) == std::vector<float>{1, 2, 3, 11, 22, 33});
  }
  {
    Expanded e(text(0, 1, 0, 1));
    CHECK(floats(e.good({x, f32({3}, {0, 0, 0})})[1]) == std::vector<float>{11, 22, 33, 10, 20, 30});
  }
  {
    Expanded e(text(-1, 0, 1, 0));
    const auto r = e.good({x, f32({2}, {0, 0})});
    CHECK(r[1].shape == std::vector<int64_t>{2, 3});
    CHECK(floats(r[1]) == std::vector<float>{1, 3, 6, 10, 30, 60});
  }
  {
    Expanded e(text(1, 1, -1, 0));
    CHECK(floats(e.good({x, f32({2}, {0, 0})})[1]) == std::vector<float>{3, 5, 6, 30, 50, 60});
  }
}

TEST_CASE("a scan of opset 8 runs over a batch, shorter sequences end in zeros") {
  const auto text = [](const char* lengths) {
    return std::string("graph \"g\" { input %l : i64[2] input %s : f32[2, 1] input %x : f32[2, 3, 1] %last, %all = ai.onnx.Scan(") + lengths + R"(, %s, %x) {
        num_scan_inputs = 1
        body = graph "body" {
          input %state : f32[1]
          input %row : f32[1]
          %next = ai.onnx.Add(%state, %row)
          %out = ai.onnx.Neg(%next)
          output %next : f32[1]
          output %out : f32[1]
        }
      }
      output %last : f32[2, 1]
      output %all : f32[2, 3, 1]
    })";
  };
  const Tensors in{i64({2}, {3, 2}), f32({2, 1}, {0, 100}), f32({2, 3, 1}, {1, 2, 3, 4, 5, 6})};
  Expanded same(text("_"), "8");
  auto r = same.good(in);
  CHECK(floats(r[0]) == std::vector<float>{6, 115});
  CHECK(floats(r[1]) == std::vector<float>{-1, -3, -6, -104, -109, -115});
  Expanded different(text("%l"), "8");
  r = different.good(in);
  CHECK(floats(r[0]) == std::vector<float>{6, 109});
  CHECK(floats(r[1]) == std::vector<float>{-1, -3, -6, -104, -109, 0});
}

TEST_CASE("bodies that multiply when they are nested come to an end") {
  // Each level grows what it carries, so each is expanded twice by the level around it.
  std::string text = "%v60 = ai.onnx.Concat(%u60, %u60) {axis = 0}";
  for (int level = 60; level > 0; --level) {
    const std::string k = std::to_string(level), outer = std::to_string(level - 1);
    text = "%v" + outer + " = ai.onnx.Loop(%n, _, %u" + outer + ") { body = graph \"b\" { input %i" + k + " : i64[] input %go" + k + " : bool[] input %u" + k +
           " : f32[*] " + text + " output %go" + k + " : bool[] output %v" + k + " : f32[*] } }";
  }
  Expanded x("graph \"g\" { input %n : i64[] input %u0 : f32[1] " + text + " output %v0 : f32[*] }");
  CHECK(x.status.text().find("when they are expanded") != std::string::npos);
}

TEST_CASE("the number of an iteration and the condition have an axis where the body declares one") {
  for (const std::string trips : {"1", "3"}) {
    Expanded x(R"(graph "g" {
      input %x : f32[4]
      %n = ai.onnx.Constant() {value_int = )" + trips + R"(}
      %l = ai.onnx.SequenceEmpty()
      %all = ai.onnx.Loop(%n, _, %l) {body = graph "body" {
        input %i : i64[1]
        input %c : bool[1]
        input %before : list(f32[?])
        %one = ai.onnx.Constant() {value_int = 1}
        %next = ai.onnx.Add(%i, %one)
        %axis = ai.onnx.Constant() {value_ints = [0]}
        %piece = ai.onnx.Slice(%x, %i, %next, %axis)
        %after = ai.onnx.SequenceInsert(%before, %piece)
        output %c : bool[1]
        output %after : list(f32[?])
      }}
      %y = ai.onnx.ConcatFromSequence(%all) {axis = 0}
      output %y : f32[*]
    })");
    const auto n = static_cast<size_t>(std::stoi(trips));
    const std::vector<float> values{1, 2, 3, 4};
    CHECK(floats(x.good({f32({4}, values)})[0]) == std::vector<float>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)));
  }
}
