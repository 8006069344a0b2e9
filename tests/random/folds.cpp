// Folds (reductions) along any axes, behind windows and beside other readers of the same values.
#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

Ints some_axes(Maker& m, const Value& x) {
  Ints axes;
  for (size_t k = 0; k < x.rank(); ++k)
    if (m.r.chance(40)) axes.push_back(static_cast<int64_t>(k));
  if (axes.empty()) axes.push_back(m.r.below(static_cast<int64_t>(x.rank())));
  return axes;
}

Value fold_and_use(Maker& m, const Value& x) {
  const Value f = m.any_fold(x, some_axes(m, x), true);
  switch (m.r.below(4)) {
    case 0: return m.node({"Add", {x, f}});
    case 1: return m.node({"Mul", {x, m.node({"Tanh", {f}})}});
    case 2: return m.node({"Sub", {f, x}});
    default: return f;
  }
}

Value softmax(Maker& m, const Value& x) {
  const int64_t axis = m.r.below(static_cast<int64_t>(x.rank()));
  const Value y = m.node({m.r.of({"Softmax", "Softmax", "LogSoftmax"}),
                          {x},
                          {{"axis", m.r.chance(50) ? axis : axis - static_cast<int64_t>(x.rank())}}});
  return m.r.chance(50) ? m.node({"Mul", {y, x}}) : y;
}

// exp(x - max) / sum, by hand.
Value softmax_by_hand(Maker& m, const Value& x) {
  const Ints axis{m.r.below(static_cast<int64_t>(x.rank()))};
  const Value e = m.node({"Exp", {m.node({"Sub", {x, m.fold("ReduceMax", x, axis, true)}})}});
  return m.node({"Div", {e, m.fold("ReduceSum", e, axis, true)}});
}

Value l2_normalised(Maker& m, const Value& x) {
  const Ints axes = some_axes(m, x);
  if (m.r.chance(40) && axes.size() == 1)
    return m.node(
        {"LpNormalization", {m.node({"Add", {x, m.scalar(0.25)}})}, {{"axis", axes[0]}, {"p", m.r.of({1, 2})}}});
  return m.node({"Div", {x, m.node({"Max", {m.fold("ReduceL2", x, axes, true), m.scalar(0.1)}})}});
}

Value arg(Maker& m, const Value& x) {
  const int64_t axis = m.r.below(static_cast<int64_t>(x.rank()));
  m.output(x);
  const Value a = m.node({m.r.of({"ArgMax", "ArgMin"}), {x}, {{"axis", axis}, {"keepdims", 1}}});
  m.output(a);
  return m.node({"Add", {x, m.cast(a, x.type)}});
}

Value standardised(Maker& m, const Value& x) {
  const Ints axes = some_axes(m, x);
  const Value d = m.node({"Sub", {x, m.fold("ReduceMean", x, axes, true)}});
  const Value v = m.fold("ReduceMean", m.node({"Mul", {d, d}}), axes, true);
  return m.node({"Div", {d, m.node({"Sqrt", {m.node({"Add", {v, m.scalar(0.01)}})}})}});
}

Value mvn(Maker& m, const Value& x) {
  if (x.elements() < 8) throw Unfit("a norm over too little");
  return m.node({"MeanVarianceNormalization",
                 {m.node({"Add", {x, m.node({"Mul", {x, m.scalar(0.5)}})}})},
                 {{"axes", some_axes(m, x)}}});
}

Value cumulative(Maker& m, const Value& x) {
  if (x.type == onnx::TensorProto::FLOAT16) throw Unfit("CumSum takes no float16");
  const int64_t axis = m.r.below(static_cast<int64_t>(x.rank()));
  const Value y = m.node({"CumSum",
                          {x, m.constant(onnx::TensorProto::INT64, {}, {static_cast<double>(axis)})},
                          {{"exclusive", m.r.of({0, 0, 1})}, {"reverse", m.r.of({0, 0, 1})}}});
  return m.node({"Mul", {y, m.scalar(0.25)}});
}

// A window with pads, then a fold over channels or another axis in the same group of statements.
Value window_then_fold(Maker& m, const Value& x) {
  const Value from = m.r.chance(50) ? m.activation(some_convolution(m, x, 2, 12)) : x;
  const Value p = padded_window(m, m.r.chance(20) ? code_and_back(m, from) : from);
  const Ints axes = m.r.of(std::vector<Ints>{{1}, {1}, {1}, {2, 3}, {3}, {2}, {1, 2, 3}});
  switch (m.r.below(6)) {
    case 0: return m.node({"Div", {p, m.node({"Add", {m.fold("ReduceL2", p, axes, true), m.scalar(0.1)}})}});
    case 1: return m.node({"Softmax", {p}, {{"axis", axes[0]}}});
    case 2: {
      m.output(p);
      const Value a = m.node({"ArgMax", {p}, {{"axis", axes[0]}}});
      m.output(a);
      return m.cast(a, x.type);
    }
    case 3: return m.node({"Sub", {p, m.fold("ReduceMean", p, axes, true)}});
    default: return m.any_fold(p, axes, m.r.chance(80));
  }
}

// The same of integers: a picture of bytes, a cast, a pool, a maximum over channels.
Value bytes_window_fold(Maker& m, const Value& x) {
  const Type type = m.r.of({onnx::TensorProto::INT8, onnx::TensorProto::UINT8});
  const int64_t count = x.elements();
  const Value codes = m.input(type, x.shape, "N-HW", m.whole(count, type == onnx::TensorProto::INT8 ? -100 : 0, 100));
  const Value p = padded_window(m, m.node({"Mul", {m.cast(codes, x.type), m.scalar(0.03125)}}));
  const Value f = m.any_fold(p, {1}, true);
  return m.node({"Add", {x.shape[2] == f.shape[2] && x.shape[3] == f.shape[3] ? x : f, f}});
}

}  // namespace

std::vector<Idiom> folds() {
  constexpr Form a = Form::Any;
  return {{"fold", a, fold_and_use, 4},
          {"softmax", a, softmax, 3},
          {"softmax_by_hand", a, softmax_by_hand},
          {"l2_normalised", a, l2_normalised},
          {"argmax", a, arg},
          {"standardised", a, standardised},
          {"mvn", a, mvn, 1},
          {"cumsum", a, cumulative},
          {"window_then_fold", Form::Picture, window_then_fold, 6},
          {"bytes_window_fold", Form::Picture, bytes_window_fold}};
}

}  // namespace mlc::random_graphs
