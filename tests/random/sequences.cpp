// Networks of sequences: embeddings, norms, attention by hand in the forms that exporters write, recurrences, mixing
// along time.
#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

int64_t batch(const Value& x) { return x.shape[0]; }
int64_t steps(const Value& x) { return x.shape[1]; }
int64_t width(const Value& x) { return x.shape[2]; }

Value dense(Maker& m, const Value& x, int64_t out, bool bias = true) {
  const int64_t in = x.shape.back();
  if (x.elements() * out > 600000) throw Unfit("a product that takes long");
  Value w;
  if (m.r.chance(25)) w = m.transpose(m.weights({out, in}, in), {1, 0});  // as torch's Linear without constant folding
  else w = m.weights({in, out}, in, 1);
  const Value y = m.node({"MatMul", {x, w}});
  if (!bias) return y;
  const Value b = m.around({out}, -0.3, 0.3);
  return m.r.chance(50) ? m.node({"Add", {y, b}}) : m.node({"Add", {b, y}});
}

Value embedding(Maker& m, const Value& x) {
  const int64_t words = m.r.within(3, 40), d = width(x);
  const Type type = m.r.of({onnx::TensorProto::INT64, onnx::TensorProto::INT32});
  const Value ids =
      m.input(type, {batch(x), steps(x)}, "NL", m.whole(batch(x) * steps(x), m.r.chance(30) ? -words : 0, words - 1));
  return m.node({"Add", {m.node({"Gather", {m.weights({words, d}, 1), ids}}), x}});
}

Value layer_norm(Maker& m, const Value& x) {
  const int64_t d = width(x);
  if (d < 3) throw Unfit("a norm over too little");
  if (m.r.chance(50))
    return m.node({"LayerNormalization",
                   {x, m.around({d}, 0.5, 1.5), m.around({d}, -0.5, 0.5)},
                   {{"axis", -1}, {"epsilon", 1e-3}}});
  const Value c = m.node({"Sub", {x, m.fold("ReduceMean", x, {-1}, true)}});
  const Value v = m.fold("ReduceMean", m.node({"Pow", {c, m.scalar(2)}}), {-1}, true);
  const Value y = m.node({"Div", {c, m.node({"Sqrt", {m.node({"Add", {v, m.scalar(1e-3)}})}})}});
  return m.node({"Add", {m.node({"Mul", {y, m.around({d}, 0.5, 1.5)}}), m.around({d}, -0.5, 0.5)}});
}

Value rms_norm(Maker& m, const Value& x) {
  const Value mean = m.fold("ReduceMean", m.node({"Mul", {x, x}}), {-1}, true);
  const Value root = m.node({"Sqrt", {m.node({"Add", {mean, m.scalar(1e-2)}})}});
  const Value y = m.r.chance(50) ? m.node({"Div", {x, root}}) : m.node({"Mul", {x, m.node({"Reciprocal", {root}})}});
  return m.node({"Mul", {m.around({width(x)}, 0.5, 1.5), y}});
}

Value feed_forward(Maker& m, const Value& x) {
  const Value h = dense(m, x, m.r.within(2, 24));
  const Value a =
      m.r.chance(30) ? m.node({"Mul", {m.activation(h), dense(m, x, h.shape.back(), false)}}) : m.activation(h);
  const Value y = dense(m, a, width(x));
  return m.r.chance(60) ? m.node({"Add", {x, y}}) : y;
}

// [N, L, D] to [N, heads, L, D / heads], or transposed.
Value heads_of(Maker& m, const Value& x, int64_t heads, bool keys) {
  return m.transpose(m.reshape(x, {0, 0, heads, -1}), keys ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3});
}

// Pairs of a vector turned by an angle that grows with the position, halves first.
Value rotated(Maker& m, const Value& x) {
  const int64_t l = x.shape[2], d = x.shape[3], half = d / 2;
  if (d % 2 != 0) throw Unfit("an odd head cannot be turned");
  const Value cos = m.around({1, 1, l, d}, -1, 1), sin = m.around({1, 1, l, d}, -1, 1);
  const Value first = m.slice(x, 3, 0, half), second = m.slice(x, 3, half, 100000);
  const Value turned = m.node({"Concat", {m.node({"Neg", {second}}), first}, {{"axis", -1}}});
  return m.node({"Add", {m.node({"Mul", {x, cos}}), m.node({"Mul", {turned, sin}})}});
}

Value masked(Maker& m, const Value& scores) {
  const int64_t rows = scores.shape[2], columns = scores.shape[3];
  switch (m.r.below(4)) {
    case 0: {  // causal, added
      std::vector<double> mask;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) mask.push_back(j > i ? -1e4 : 0);
      return m.node({"Add", {scores, m.constant(scores.type, {1, 1, rows, columns}, mask)}});
    }
    case 1: {  // of the batch: truth values that are an input
      std::vector<double> keep = m.whole(scores.shape[0] * columns, 0, 1);
      for (int64_t n = 0; n < scores.shape[0]; ++n) keep[static_cast<size_t>(n * columns)] = 1;
      const Value mask = m.input(onnx::TensorProto::BOOL, {scores.shape[0], 1, 1, columns}, "N--L", keep);
      return m.node({"Where", {mask, scores, m.scalar(-1e4)}});
    }
    case 2: {
      const Value mask =
          m.input(onnx::TensorProto::INT64, {scores.shape[0], columns}, "NL", m.whole(scores.shape[0] * columns, 0, 1));
      const Value f =
          m.node({"Sub", {m.scalar(1), m.cast(m.node({"Unsqueeze", {mask, m.ints({1, 2})}}), scores.type)}});
      return m.node({"Add", {scores, m.node({"Mul", {f, m.scalar(-1000)}})}});
    }
    default: return scores;
  }
}

Value attention(Maker& m, const Value& x) {
  const int64_t d = width(x), heads = d % 4 == 0 ? m.r.of({1, 2, 4}) : d % 2 == 0 ? 2 : 1;
  if (batch(x) * heads * steps(x) * steps(x) > 20000) throw Unfit("too many steps");
  Value q, k, v;
  if (m.r.chance(25)) {
    const std::vector<Value> parts = m.nodes({"Split", {dense(m, x, 3 * d)}, {{"axis", -1}}}, 3);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = dense(m, x, d), k = dense(m, x, d), v = dense(m, x, d);
  }
  const bool turned = m.r.chance(30) && d / heads % 2 == 0;
  q = heads_of(m, q, heads, false), v = heads_of(m, v, heads, false);
  if (turned) q = rotated(m, q), k = m.transpose(rotated(m, heads_of(m, k, heads, false)), {0, 1, 3, 2});
  else k = heads_of(m, k, heads, true);
  if (m.r.chance(40)) q = m.node({"Mul", {q, m.scalar(0.35)}});
  Value s = m.node({"MatMul", {q, k}});
  if (m.r.chance(60)) s = m.node({"Div", {s, m.scalar(2)}});
  const Value p = m.node({"Softmax", {masked(m, s)}, {{"axis", m.r.of({-1, 3})}}});
  const Value y = m.reshape(m.transpose(m.node({"MatMul", {p, v}}), {0, 2, 1, 3}), {0, 0, d});
  return m.r.chance(70) ? m.node({"Add", {x, dense(m, y, d)}}) : dense(m, y, d);
}

// Products around a softmax without projections, by rows and by columns; [N, D, L] as pictures are flattened.
Value plain_attention(Maker& m, const Value& x) {
  if (batch(x) * steps(x) * steps(x) > 20000) throw Unfit("too many steps");
  const Value c = m.r.chance(60) ? m.transpose(x, {0, 2, 1}) : x;  // columns
  const Value t = m.transpose(c, {0, 2, 1});
  const Value e = m.node({"Mul", {m.node({"MatMul", {t, c}}), m.scalar(0.25)}});
  const Value a = m.node({"Softmax", {e}, {{"axis", m.r.of({-1, -1, 1})}}});
  switch (m.r.below(3)) {
    case 0: return m.node({"MatMul", {c, a}});
    case 1: return m.node({"MatMul", {c, m.transpose(a, {0, 2, 1})}});
    default: return m.node({"MatMul", {a, t}});
  }
}

// MatMul(x, Softmax(x^T x)) where x is a picture with its places flattened: as many places as two tiles and a rest.
Value columns_of_picture(Maker& m, const Value& x) {
  const auto [h, w] = m.r.of(
      std::vector<std::pair<int64_t, int64_t>>{{11, 7}, {13, 6}, {10, 8}, {12, 7}, {7, 7}, {5, 3}, {9, 9}, {8, 8}});
  const int64_t n = m.r.of({2, 1, 3}), c = m.r.of({4, 7, 8, 24});
  const Value picture = m.input({n, c, h, w}, "N-HW"),
              p = m.r.chance(70) ? m.node({"Mul", {picture, m.scalar(0.5)}}) : picture;
  const Value q = m.reshape(p, {0, 0, -1}), t = m.transpose(q, {0, 2, 1});
  const Value a = m.node({"Softmax", {m.node({"MatMul", {t, q}})}, {{"axis", -1}}});
  m.output(m.node({"MatMul", {q, a}}));
  return x;
}

// a^T a or a a^T beside a product with weights on the left of the same a: Gram matrices, token mixing.
Value gram_and_mixing(Maker& m, const Value& x) {
  if (batch(x) * (steps(x) * steps(x) + width(x) * width(x)) > 20000) throw Unfit("too wide");
  const Value a = m.r.chance(70) ? m.activation(x) : m.node({"Concat", {x, x}, {{"axis", 1}}});
  const Value t = m.transpose(a, {0, 2, 1});
  const Value g = m.r.chance(60) ? m.node({"MatMul", {t, a}}) : m.node({"MatMul", {a, t}});
  const Value z = m.node({"MatMul", {m.weights({m.r.within(2, 8), a.shape[1]}, a.shape[1]), a}});
  m.output(m.node({"Mul", {g, m.scalar(0.125)}}));
  return z;
}

Value mixer(Maker& m, const Value& x) {
  const Value t = m.transpose(x, {0, 2, 1});
  const Value y = dense(m, m.activation(dense(m, t, m.r.within(2, 12))), steps(x));
  return m.node({"Add", {x, m.transpose(y, {0, 2, 1})}});
}

Value recurrence(Maker& m, const Value& x) {
  const int64_t h = m.r.within(1, 9), d = width(x), l = steps(x), n = batch(x), directions = m.r.of({1, 1, 2});
  if (l > 24) throw Unfit("too many steps");
  const std::string op = m.r.of({"GRU", "LSTM", "RNN"});
  const int64_t gates = op == "GRU" ? 3 : op == "LSTM" ? 4 : 1;
  const Value w = m.weights({directions, gates * h, d}, d, 1), u = m.weights({directions, gates * h, h}, h, 1);
  const Value b = m.around({directions, 2 * gates * h}, -0.3, 0.3);
  std::vector<Attr> attrs{{"hidden_size", h},
                          {"direction", directions == 2 ? "bidirectional" : m.r.of({"forward", "reverse"})}};
  if (op == "GRU" && m.r.chance(60)) attrs.push_back({"linear_before_reset", 1});
  std::vector<Value> inputs{m.transpose(x, {1, 0, 2}), w, u, b};
  if (m.r.chance(40)) inputs.insert(inputs.end(), {Value{}, m.input({directions, n, h}, "-N-")});
  const Value y = m.nodes({op, inputs, attrs}, 2)[0];  // [L, directions, N, H]
  return m.reshape(m.transpose(y, {2, 0, 1, 3}), {n, l, directions * h});
}

Value causal_conv(Maker& m, const Value& x) {
  const int64_t d = width(x), k = m.r.of({2, 3, 4});
  const bool depthwise = m.r.chance(60);
  const Value w = depthwise ? m.weights({d, 1, k}, k) : m.weights({d, d, k}, d * k);
  const Value y =
      m.node({"Conv", {m.transpose(x, {0, 2, 1}), w}, {{"group", depthwise ? d : 1}, {"pads", Ints{k - 1, 0}}}});
  return m.transpose(m.activation(y), {0, 2, 1});
}

Value shifted(Maker& m, const Value& x) {
  if (steps(x) < 2) throw Unfit("one step cannot be shifted");
  const Value first = m.slice(x, 1, 0, 1), rest = m.slice(x, 1, 0, -1);
  const Value before = m.node({"Concat", {first, rest}, {{"axis", 1}}}), mu = m.around({1, 1, width(x)}, 0, 1);
  return m.node({"Add", {m.node({"Mul", {x, mu}}), m.node({"Mul", {before, m.node({"Sub", {m.scalar(1), mu}})}})}});
}

Value einsum(Maker& m, const Value& x) {
  if (x.elements() * std::max(width(x), steps(x)) > 400000) throw Unfit("takes long");
  const int64_t n = batch(x), l = steps(x), d = width(x);
  switch (m.r.below(4)) {
    case 0:
      return m.node_as(x.type, {n, l, 5}, {"Einsum", {x, m.weights({d, 5}, d, 1)}, {{"equation", "nld,de->nle"}}});
    case 1:
      return m.node(
          {"Mul", {m.node_as(x.type, {n, l, l}, {"Einsum", {x, x}, {{"equation", "nld,nmd->nlm"}}}), m.scalar(0.1)}});
    case 2:
      return m.node_as(x.type, {n, 4, d}, {"Einsum", {x, m.weights({l, 4}, l, 1)}, {{"equation", "nld,lk->nkd"}}});
    default:
      return m.node(
          {"Mul",
           {m.node_as(x.type, {n, d, d}, {"Einsum", {x, m.node({"Tanh", {x}})}, {{"equation", "bij,bik->bjk"}}}),
            m.scalar(0.2)}});
  }
}

Value pooled_steps(Maker& m, const Value& x) {
  const Value w = m.node({"Softmax", {dense(m, m.node({"Tanh", {dense(m, x, 4)}}), 1)}, {{"axis", 1}}});
  const Value y = m.fold("ReduceSum", m.node({"Mul", {x, w}}), {1}, true);
  return m.node({"Add", {m.r.chance(50) ? m.node_as(x.type, x.shape, {"Expand", {y, m.node({"Shape", {x}})}}) : y, x}});
}

}  // namespace

std::vector<Idiom> sequences() {
  constexpr Form s = Form::Sequence;
  return {{"embedding", s, embedding},
          {"layer_norm", s, layer_norm, 3},
          {"rms_norm", s, rms_norm},
          {"feed_forward", s, feed_forward, 3},
          {"attention", s, attention, 4},
          {"plain_attention", s, plain_attention, 3},
          {"columns_of_picture", s, columns_of_picture, 2},
          {"gram_and_mixing", s, gram_and_mixing, 3},
          {"mixer", s, mixer},
          {"recurrence", s, recurrence},
          {"causal_conv", s, causal_conv},
          {"shifted", s, shifted},
          {"einsum", s, einsum},
          {"pooled_steps", s, pooled_steps}};
}

}  // namespace mlc::random_graphs
