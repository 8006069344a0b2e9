// Heads of detectors: splits and grids, choices of the best, lookups by what was chosen.
#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

constexpr Type kFloat = onnx::TensorProto::FLOAT;

// Boxes as YOLO decodes them: [N, anchors * (5 + classes), H, W] to [N, boxes, 5 + classes].
Value grid_head(Maker& m, const Value& x) {
  const int64_t anchors = m.r.within(1, 3), each = 5 + m.r.within(1, 3), h = x.shape[2], w = x.shape[3];
  const Value y = convolution(m, x, anchors * each, 1);
  const Value five = m.transpose(m.reshape(y, {x.shape[0], anchors, each, h, w}), {0, 1, 3, 4, 2});
  const Value s = m.node({"Sigmoid", {five}});
  const std::vector<Value> parts = m.nodes({"Split", {s, m.ints({2, 2, each - 4})}, {{"axis", -1}}}, 3);
  std::vector<double> grid;
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < w; ++j) grid.insert(grid.end(), {static_cast<double>(j), static_cast<double>(i)});
  const Value centre = m.node({"Add",
                               {m.node({"Sub", {m.node({"Mul", {parts[0], m.scalar(2)}}), m.scalar(0.5)}}),
                                m.constant(m.real, {1, 1, h, w, 2}, grid)}});
  const Value twice = m.node({"Mul", {parts[1], m.scalar(2)}});
  const Value size = m.node({"Mul", {m.node({"Pow", {twice, m.scalar(2)}}), m.around({1, anchors, 1, 1, 2}, 1, 4)}});
  const Value all = m.node({"Concat", {m.node({"Mul", {centre, m.scalar(8)}}), size, parts[2]}, {{"axis", -1}}});
  return m.reshape(all, {x.shape[0], -1, each});
}

// Distances as a distribution over bins (YOLOv8, GFL): a softmax over bins, then its mean.
Value bins_head(Maker& m, const Value& x) {
  const int64_t bins = m.r.of({4, 8, 16}), places = x.shape[2] * x.shape[3];
  const Value flat = m.reshape(convolution(m, x, 4 * bins, 1), {x.shape[0], 4, bins, places});
  const Value p = m.node({"Softmax", {m.transpose(flat, {0, 2, 1, 3})}, {{"axis", 1}}});
  std::vector<double> centres;
  for (int64_t k = 0; k < bins; ++k) centres.push_back(static_cast<double>(k));
  const Value d =
      m.reshape(m.node({"Conv", {p, m.constant(m.real, {1, bins, 1, 1}, centres)}}), {x.shape[0], 4, places});
  const Value near = m.slice(d, 1, 0, 2), far = m.slice(d, 1, 2, 4);
  const Value box =
      m.node({"Concat", {m.node({"Sub", {m.scalar(8), near}}), m.node({"Add", {far, m.scalar(8)}})}, {{"axis", 1}}});
  return m.transpose(box, {0, 2, 1});
}

Value best(Maker& m, const Value& x) {
  const int64_t axis = m.r.below(static_cast<int64_t>(x.rank())), k = m.r.within(1, x.shape[static_cast<size_t>(axis)]);
  const std::vector<Value> top =
      m.nodes({"TopK", {x, m.ints({k})}, {{"axis", axis}, {"largest", m.r.of({1, 1, 0})}}}, 2);
  m.output(top[1]);
  return top[0];
}

// The best steps by their score, and what belongs to them.
Value best_and_gather(Maker& m, const Value& x) {
  const int64_t k = m.r.within(1, x.shape[1]), d = x.shape[2];
  const Value score = m.fold("ReduceMax", x, {2}, false);
  const std::vector<Value> top = m.nodes({"TopK", {score, m.ints({k})}, {{"axis", 1}}}, 2);
  m.output(top[0]);
  const Value index = m.node({"Expand", {m.node({"Unsqueeze", {top[1], m.ints({2})}}), m.ints({x.shape[0], k, d})}});
  return m.node({"GatherElements", {x, index}, {{"axis", 1}}});
}

Value class_and_score(Maker& m, const Value& x) {
  const Value p = m.r.chance(50) ? m.node({"Softmax", {x}, {{"axis", 2}}}) : m.node({"Sigmoid", {x}});
  m.output(p);
  const Value best = m.node({"ArgMax", {p}, {{"axis", 2}, {"keepdims", 1}}}), score = m.fold("ReduceMax", p, {2}, true);
  m.output(best);
  const Value table = m.weights({x.shape[2], 3}, 1);
  return m.node({"Mul", {m.node({"Gather", {table, m.node({"Squeeze", {best, m.ints({2})}})}}), score}});
}

Value suppressed(Maker& m, const Value& x) {
  if (x.type != kFloat || x.shape[1] < 2) throw Unfit("boxes are floats, and several");
  const int64_t n = x.shape[0], boxes = x.shape[1];
  const Value four = m.node({"MatMul", {x, m.weights({x.shape[2], 4}, x.shape[2], 1)}});
  const Value centre = m.slice(four, 2, 0, 2), size = m.node({"Abs", {m.slice(four, 2, 2, 4)}});
  const Value all =
      m.node({"Concat", {m.node({"Sub", {centre, size}}), m.node({"Add", {centre, size}})}, {{"axis", 2}}});
  const Value scores = m.transpose(m.node({"Sigmoid", {m.slice(x, 2, 0, 1)}}), {0, 2, 1});
  m.output(scores);
  const Value kept = m.node_as(
      kInt64, {n * boxes, 3},
      {"NonMaxSuppression",
       {all, scores, m.ints({m.r.within(1, boxes)}), m.constant(kFloat, {1}, {0.4}), m.constant(kFloat, {1}, {0.3})}});
  m.output(kept);
  return all;
}

}  // namespace

std::vector<Idiom> detectors() {
  return {{"grid_head", Form::Picture, grid_head},
          {"bins_head", Form::Picture, bins_head},
          {"top_k", Form::Any, best},
          {"best_and_gather", Form::Sequence, best_and_gather},
          {"class_and_score", Form::Sequence, class_and_score},
          {"suppressed", Form::Sequence, suppressed, 1}};
}

}  // namespace mlc::random_graphs
