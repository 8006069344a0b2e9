// Quantised networks: chains of codes and back, operators on codes, integer products.
#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

constexpr Type kU8 = onnx::TensorProto::UINT8, kI8 = onnx::TensorProto::INT8;

struct Scale {
  Value step, zero;
};
// Steps that are no powers of two, so that products of them are rounded as those of real models are.
Scale some_scale(Maker& m, Type type, double step, bool is_positive) {
  const double zero = is_positive   ? (type == kU8 ? 0 : -128)
                      : type == kU8 ? static_cast<double>(m.r.within(118, 138))
                                    : static_cast<double>(m.r.within(-8, 8));
  const Value s = m.constant(onnx::TensorProto::FLOAT, {}, {step});
  return {s, m.constant(type, {}, {zero})};
}

void need_float(const Value& x) {
  if (x.type != onnx::TensorProto::FLOAT) throw Unfit("codes are of floats here");
}

Value codes_of(Maker& m, const Value& x, const Scale& s) { return m.node({"QuantizeLinear", {x, s.step, s.zero}}); }
Value back(Maker& m, const Value& q, const Scale& s) { return m.node({"DequantizeLinear", {q, s.step, s.zero}}); }

// Weights as codes with a step per channel of axis 0.
Value coded_weights(Maker& m, Ints shape, int64_t fan) {
  const Value w{"", kI8, shape};
  const int64_t c = shape[0];
  double step = 0.02;
  while (step * step * static_cast<double>(fan) * 3000 > 1) step *= 0.8;
  const Value codes = m.constant(kI8, shape, m.whole(w.elements(), -110, 110));
  if (m.r.chance(60)) {
    std::vector<double> steps(static_cast<size_t>(c));
    for (double& s : steps) s = step * m.r.of({0.3, 0.7, 1.1});
    return m.node({"DequantizeLinear",
                   {codes, m.constant(onnx::TensorProto::FLOAT, {c}, steps),
                    m.constant(kI8, {c}, std::vector<double>(static_cast<size_t>(c), 0))},
                   {{"axis", 0}}});
  }
  return m.node({"DequantizeLinear", {codes, m.constant(onnx::TensorProto::FLOAT, {}, {step})}});
}

Value coded(Maker& m, const Value& x) {
  need_float(x);
  return code_and_back(m, x);
}

Value coded_conv(Maker& m, const Value& x) {
  need_float(x);
  const Value a = code_and_back(m, x);
  const int64_t c = x.shape[1], k = m.r.of({1, 3}), out = m.r.within(2, 10), p = k / 2;
  const bool depthwise = m.r.chance(25);
  const Value w = coded_weights(m, {depthwise ? c : out, depthwise ? 1 : c, k, k}, depthwise ? k * k : c * k * k);
  std::vector<Value> inputs{a, w};
  if (m.r.chance(70)) inputs.push_back(m.around({w.shape[0]}, -0.3, 0.3));
  const Value y = m.node({"Conv", inputs, {{"group", depthwise ? c : 1}, {"pads", Ints{p, p, p, p}}}});
  const Value b = m.r.chance(60) ? m.node({"Relu", {y}}) : y;
  return m.r.chance(80) ? code_and_back(m, b) : b;
}

// Codes, back, a pool with pads, codes, back, ...: every operator between codes, as static quantisation writes it.
Value coded_chain(Maker& m, const Value& x) {
  need_float(x);
  Value y = code_and_back(m, x);
  for (int64_t k = m.r.within(1, 4); k > 0; --k) {
    switch (m.r.below(6)) {
      case 0: y = m.node({"MaxPool", {y}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}}); break;
      case 1: y = m.node({"Relu", {y}}); break;
      case 2: y = m.node({"Concat", {y, m.node({"Neg", {y}})}, {{"axis", 1}}}); break;
      case 3: y = m.node({"AveragePool", {y}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}}); break;
      case 4: y = m.node({"Softmax", {y}, {{"axis", 1}}}); break;
      default: y = padded_window(m, y);
    }
    m.output(y);  // what is quantised, to see how near a tie was
    y = code_and_back(m, y);
  }
  return y;
}

Value coded_sum(Maker& m, const Value& x) {
  need_float(x);
  const Value a = code_and_back(m, x), b = code_and_back(m, m.activation(x));
  return code_and_back(m, m.node({"Add", {a, b}}));
}

Value qlinear_conv(Maker& m, const Value& x) {
  need_float(x);
  const Type type = m.r.of({kU8, kI8, kU8});
  const Scale in = some_scale(m, type, 0.031, false), out = some_scale(m, type, 0.043, false);
  const Value q = codes_of(m, x, in);
  const int64_t c = x.shape[1], k = m.r.of({1, 3}), o = m.r.within(1, 8), p = k / 2;
  const bool per_channel = m.r.chance(50);
  const Value w = m.constant(kI8, {o, c, k, k}, m.whole(o * c * k * k, -90, 90));
  const Ints steps = per_channel ? Ints{o} : Ints{};
  const int64_t count = per_channel ? o : 1;
  const Value ws = m.constant(onnx::TensorProto::FLOAT, steps, m.reals(count, 0.003, 0.009));
  const Value wz = m.constant(kI8, steps, std::vector<double>(static_cast<size_t>(count), 0));
  std::vector<Value> inputs{q, in.step, in.zero, w, ws, wz, out.step, out.zero};
  if (m.r.chance(60)) inputs.push_back(m.constant(onnx::TensorProto::INT32, {o}, m.whole(o, -3000, 3000)));
  const Value y = m.node({"QLinearConv", inputs, {{"pads", Ints{p, p, p, p}}}});
  return back(m, y, out);
}

Value integer_conv(Maker& m, const Value& x) {
  need_float(x);
  const Scale in = some_scale(m, kU8, 0.03, false);
  const Value q = codes_of(m, x, in);
  const int64_t c = x.shape[1], o = m.r.within(1, 6), k = m.r.of({1, 3});
  const Value w = m.constant(kI8, {o, c, k, k}, m.whole(o * c * k * k, -60, 60));
  std::vector<Value> inputs{q, w, in.zero};
  const Value y = m.node({"ConvInteger", inputs, {{"pads", Ints{k / 2, k / 2, k / 2, k / 2}}}});
  return m.node({"Mul", {m.cast(y, onnx::TensorProto::FLOAT), m.scalar(0.001)}});
}

Value qlinear_matmul(Maker& m, const Value& x) {
  need_float(x);
  const Scale in = some_scale(m, kU8, 0.03, false), out = some_scale(m, kU8, 0.05, false);
  const Value q = codes_of(m, x, in);
  const int64_t d = x.shape.back(), o = m.r.within(1, 12);
  const Scale ws = some_scale(m, kI8, 0.006, false);
  const Value y = m.node({"QLinearMatMul",
                          {q, in.step, in.zero, m.constant(kI8, {d, o}, m.whole(d * o, -100, 100)), ws.step, ws.zero,
                           out.step, out.zero}});
  return back(m, y, out);
}

// Dynamic quantisation, as onnxruntime.quantization writes it: codes of x by its own range, an integer product, steps
// back.
Value dynamic_matmul(Maker& m, const Value& x) {
  need_float(x);
  if (x.rank() < 2) throw Unfit("a vector");
  const std::vector<Value> q = m.nodes({"DynamicQuantizeLinear", {x}}, 3);
  const int64_t d = x.shape.back(), o = m.r.within(1, 12);
  const Value w = m.constant(kI8, {d, o}, m.whole(d * o, -100, 100));
  const Value y = m.node({"MatMulInteger", {q[0], w, q[2]}});
  const Value steps = m.node({"Mul", {q[1], m.constant(onnx::TensorProto::FLOAT, {o}, m.reals(o, 0.002, 0.01))}});
  m.output(q[0]);
  return m.node({"Add", {m.node({"Mul", {m.cast(y, onnx::TensorProto::FLOAT), steps}}), m.around({o}, -0.3, 0.3)}});
}

Value coded_dense(Maker& m, const Value& x) {
  need_float(x);
  const Value a = code_and_back(m, x);
  const int64_t d = x.shape.back(), o = m.r.within(1, 12);
  if (x.rank() < 2) throw Unfit("a vector");
  const Value w = m.transpose(coded_weights(m, {o, d}, d), {1, 0});
  const Value y = m.node({"MatMul", {a, w}});
  return m.r.chance(60) ? code_and_back(m, m.node({"Add", {y, m.around({o}, -0.3, 0.3)}})) : y;
}

}  // namespace

Value code_and_back(Maker& m, const Value& x, bool is_positive) {
  need_float(x);
  const Type type = m.r.of({kU8, kI8, kU8});
  const double step = m.r.of({0.0307, 0.0193, 0.0521});
  const Scale s = some_scale(m, type, step, is_positive);
  return back(m, codes_of(m, x, s), s);
}

std::vector<Idiom> quantised() {
  constexpr Form p = Form::Picture, a = Form::Any;
  return {{"coded", a, coded},
          {"coded_conv", p, coded_conv, 3},
          {"coded_chain", p, coded_chain, 4},
          {"coded_sum", a, coded_sum},
          {"qlinear_conv", p, qlinear_conv},
          {"integer_conv", p, integer_conv},
          {"qlinear_matmul", Form::Sequence, qlinear_matmul},
          {"dynamic_matmul", a, dynamic_matmul},
          {"coded_dense", Form::Sequence, coded_dense}};
}

}  // namespace mlc::random_graphs
