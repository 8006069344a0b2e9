// Graphs of a model that the text of an operator calls.
#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {

const lang::Library& with(const std::string& text) {
  std::vector<lang::SourceFile> files = lang::Library::builtin_files();
  files.push_back({"test.mlop", text});
  static std::vector<std::unique_ptr<lang::Library>> all;
  auto parsed = lang::Library::parse(files);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().text()));
  all.push_back(std::make_unique<lang::Library>(std::move(parsed).value()));
  return *all.back();
}

// What `body` makes of x + 1, times ten.
const std::string kCaller = R"(op Caller@1<T: float>(x: T[a, b]) -> y: T[a, b]
  attr body: graph?
  more[a, b] = x[a, b] + 1
  made[a, b] = graph body(more)
  y[a, b] = 10*T(made[a, b])
)";

std::string calling(const std::string& body) {
  return R"(graph "g" {
    input %x : f32[N, 2]
    input %w : f32[2]
    %y = ai.onnx.Caller(%x))" + (body.empty() ? "" : " {\n body = graph \"body\" {\n" + body + "} }") + R"(
    %z = ai.onnx.Mul(%y, %w)
    output %z : f32[*]
  })";
}

const Tensor kX = f32({2, 2}, {1, 2, 3, 4}), kW = f32({2}, {1, 2});

std::vector<float> called(const std::string& body) {
  Expanded x(calling(body), "17", with(kCaller));
  return floats(x.good({kX, kW})[0]);
}
std::string refused(const std::string& body) {
  Expanded x(calling(body), "17", with(kCaller));
  CHECK_FALSE(x.status.ok());
  return x.status.text();
}
bool says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a text calls a graph with whole arrays; without one it keeps what it has") {
  CHECK(called("") == std::vector<float>{20, 60, 40, 100});
  CHECK(called("input %t : f32[A, B]\n %u = ai.onnx.Neg(%t)\n output %u : f32[*]\n") == std::vector<float>{-20, -60, -40, -100});
  CHECK(called("input %t : f32[A, B]\n output %t : f32[*]\n") == std::vector<float>{20, 60, 40, 100});
}

TEST_CASE("such a graph sees values around the node, and its result may have another element type") {
  CHECK(called("input %t : f32[A, B]\n %u = ai.onnx.Mul(%t, %w)\n output %u : f32[*]\n") == std::vector<float>{20, 120, 40, 200});
  CHECK(called("input %t : f32[A, B]\n %s = ai.onnx.Shape(%x)\n %k = ai.onnx.Constant() {value_int = 0}\n %n = ai.onnx.Gather(%s, %k)\n"
               " %f = ai.onnx.Cast(%n) {to = 11}\n %d = ai.onnx.Cast(%t) {to = 11}\n %u = ai.onnx.Add(%d, %f)\n output %u : f64[*]\n") ==
        std::vector<float>{40, 100, 60, 140});
}

TEST_CASE("a graph of another form than the text says is refused") {
  CHECK(says(refused("input %t : f32[A, B]\n input %s : f32[A, B]\n output %t : f32[*]\n"), "the body has 2 inputs, 1 are given"));
  CHECK(says(refused("input %t : f32[A, B]\n %u = ai.onnx.Neg(%t)\n output %u : f32[*]\n output %t : f32[*]\n"),
             "attribute 'body' is a graph with 2 outputs, expected 1"));
  CHECK(says(refused("input %t : f32[A, B]\n %v = ai.onnx.Concat(%t, %t) {axis = 1}\n output %v : f32[*]\n"),
             "attribute 'body': output 0, axis 1"));
  CHECK(says(refused("input %t : f32[A, B]\n %u = ai.onnx.ReduceSum(%t) {keepdims = 0}\n output %u : f32[*]\n"), "has 0 axes, expected 2"));
  CHECK(says(refused("input %t : f32[A, B]\n %u = ai.onnx.SequenceConstruct(%t)\n output %u : list(f32[*])\n"), "a tensor is expected"));
}

TEST_CASE("extents that a graph leaves open are checked by each run") {
  Expanded x(R"(graph "g" {
    input %x : f32[N, 2]
    input %other : f32[M, 2]
    %y = ai.onnx.Caller(%x) {
      body = graph "body" {
        input %t : f32[A, B]
        %u = ai.onnx.Neg(%other)
        output %u : f32[*]
      }
    }
    output %y : f32[*]
  })", "17", with(kCaller));
  CHECK(floats(x.good({kX, kX})[0]) == std::vector<float>{-10, -20, -30, -40});
  x.bad({kX, f32({1, 2}, {1, 2})}, "attribute 'body': output 0, axis 0");
}

TEST_CASE("FlexAttention: the graphs may hold state of the model, extents are free") {
  const std::string graph = R"(graph "g" {
    input %q : f32[1, 2, S, 1]
    input %k : f32[1, 1, T, 1]
    input %v : f32[1, 1, T, 1]
    input %bias : f32[S, T]
    %y = ai.onnx.preview.FlexAttention(%q, %k, %v) {
      score_mod = graph "scores" {
        input %s : f32[B, H, S, T]
        %m = ai.onnx.Add(%s, %bias)
        output %m : f32[*]
      }
      prob_mod = graph "weights" {
        input %p : f32[B, H, S, T]
        %r = ai.onnx.Add(%p, %p)
        output %r : f32[*]
      }
    }
    output %y : f32[*]
  })";
  Expanded x(graph, "28\nopset ai.onnx.preview 1");
  const float far = -1000;
  const auto y = x.good({f32({1, 2, 2, 1}, {1, 2, 3, 4}), f32({1, 1, 2, 1}, {1, 2}), f32({1, 1, 2, 1}, {5, 7}), f32({2, 2}, {0, far, far, 0})});
  CHECK(y[0].shape == std::vector<int64_t>{1, 2, 2, 1});
  CHECK(floats(y[0]) == std::vector<float>{10, 14, 10, 14});
}
