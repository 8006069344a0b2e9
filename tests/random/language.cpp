// What language models have beside the layers of any sequence: keys and values of earlier steps that are inputs and outputs, heads that share keys, weights of the
// embedding that the last product reads too, products of one array, residual sums behind norms.
#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

int64_t batch(const Value& x) { return x.shape[0]; }
int64_t steps(const Value& x) { return x.shape[1]; }
int64_t width(const Value& x) { return x.shape[2]; }

Value projected(Maker& m, const Value& x, int64_t out) {
  const Value y = m.node({"MatMul", {x, m.weights({width(x), out}, width(x), 1)}});
  return m.r.chance(50) ? m.node({"Add", {y, m.around({out}, -0.3, 0.3)}}) : y;
}

Value heads_of(Maker& m, const Value& x, int64_t heads) { return m.transpose(m.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3}); }

// [N, G, S, D] to [N, G * each, S, D]: every head of keys is that of `each` heads of queries.
Value repeated(Maker& m, const Value& x, int64_t each) {
  if (each == 1) return x;
  const int64_t n = x.shape[0], g = x.shape[1], s = x.shape[2], d = x.shape[3];
  const Value wide = m.node({"Unsqueeze", {x, m.ints({2})}});
  const Value all = m.node_as(x.type, {n, g, each, s, d}, {"Expand", {wide, m.ints({1, 1, each, 1, 1})}});
  return m.reshape(all, {0, g * each, -1, d});
}

// One axis of a value, as a number that the run knows.
Value extent_of(Maker& m, const Value& x, int64_t axis) {
  return m.node_as(kInt64, {}, {"Gather", {m.node({"Shape", {x}}), m.constant(kInt64, {}, {static_cast<double>(axis)})}});
}

// Keys behind their query's place score nothing: that of query i is i + past.
Value causal(Maker& m, const Value& scores) {
  const int64_t l = scores.shape[2], s = scores.shape[3];
  const Value rows = extent_of(m, scores, 2), columns = extent_of(m, scores, 3), zero = m.constant(kInt64, {}, {0}), one = m.constant(kInt64, {}, {1});
  const Value key = m.node_as(kInt64, {s}, {"Range", {zero, columns, one}});
  const Value query = m.node_as(kInt64, {l}, {"Range", {m.node({"Sub", {columns, rows}}), columns, one}});
  const Value seen = m.node({"LessOrEqual", {key, m.node({"Unsqueeze", {query, m.ints({1})}})}});
  if (m.r.chance(50)) return m.node({"Where", {seen, scores, m.scalar(-1e4)}});
  const Value f = m.node({"Sub", {m.cast(seen, scores.type), m.scalar(1)}});
  return m.node({"Add", {scores, m.node({"Mul", {f, m.scalar(1e4)}})}});
}

Value cached_attention(Maker& m, const Value& x) {
  const int64_t groups = m.r.of({1, 2}), each = m.r.of({1, 1, 2, 3}), d = m.r.of({4, 8, 12, 16, 32}), past = m.r.of({1, 3, 8, 15, 16, 31, 33});
  const int64_t heads = groups * each, n = batch(x), s = past + steps(x);
  if (n * heads * steps(x) * s * d > 400000) throw Unfit("too many steps");
  const Value q = heads_of(m, projected(m, x, heads * d), heads);
  Value k = heads_of(m, projected(m, x, groups * d), groups), v = heads_of(m, projected(m, x, groups * d), groups);
  k = m.node({"Concat", {m.input({n, groups, past, d}, "N-P-"), k}, {{"axis", 2}}});
  v = m.node({"Concat", {m.input({n, groups, past, d}, "N-P-"), v}, {{"axis", -2}}});
  m.output(k), m.output(v);
  const Value keys = m.transpose(repeated(m, k, each), {0, 1, 3, 2});
  Value scores = m.node({"Mul", {m.node({"MatMul", {q, keys}}), m.scalar(0.3)}});
  if (m.r.chance(70)) scores = causal(m, scores);
  const Value y = m.node({"MatMul", {m.node({"Softmax", {scores}, {{"axis", -1}}}), repeated(m, v, each)}});
  return projected(m, m.reshape(m.transpose(y, {0, 2, 1, 3}), {0, 0, heads * d}), width(x));
}

// Rows of a table, and the product with the same table, transposed: in the graph, as a copy, or by Gemm.
Value tied_weights(Maker& m, const Value& x) {
  const int64_t n = batch(x), l = steps(x), d = m.r.of({16, 32, 33, 64}), words = (1 << 14) / d + m.r.below(40);
  if (n * l > 80) throw Unfit("a product that takes long");
  const std::vector<double> values = m.reals(words * d, -0.4, 0.4);
  const Value table = m.constant(m.real, {words, d}, values), ids = m.input(kInt64, {n, l}, "NL", m.whole(n * l, m.r.chance(30) ? -words : 0, words - 1));
  const Value h = m.activation(projected(m, m.node({"Gather", {table, ids}}), d));
  Value y;
  switch (m.r.below(3)) {
    case 0: y = m.node({"MatMul", {h, m.transpose(table, {1, 0})}}); break;
    case 1: {
      std::vector<double> turned;
      for (int64_t c = 0; c < d; ++c)
        for (int64_t r = 0; r < words; ++r) turned.push_back(values[static_cast<size_t>(r * d + c)]);
      y = m.node({"MatMul", {h, m.constant(m.real, {d, words}, turned)}});
      break;
    }
    default: y = m.node({"Gemm", {m.reshape(h, {-1, d}), table}, {{"transB", 1}}}); break;
  }
  m.output(y);
  return x;
}

// Several products of one array, as wide as tiles are or not, each with something of its own behind it.
Value products_of_one(Maker& m, const Value& x) {
  const int64_t first = m.r.of({16, 32, 48, 64}), count = m.r.within(2, 4);
  if (x.elements() * first > 100000) throw Unfit("a product that takes long");
  const bool shares = m.r.chance(20);
  const Value weights = m.weights({width(x), first}, width(x), 1);
  std::vector<Value> all;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t out = k == 0 || m.r.chance(60) ? first : m.r.of({16, 17, 32, 80});
    const Value w = out == first && (k == 0 || shares) ? weights : m.weights({width(x), out}, width(x), 1);
    Value y = m.node({"MatMul", {x, w}});
    if (m.r.chance(60)) y = m.node({"Add", {y, m.around({out}, -0.3, 0.3)}});
    if (m.r.chance(40)) y = m.activation(y);
    if (m.r.chance(30)) y = m.node({"Mul", {y, m.scalar(0.5)}});
    all.push_back(y);
  }
  Value y = all[0];
  for (int64_t k = 1; k < count; ++k) {
    const Value& other = all[static_cast<size_t>(k)];
    switch (other.shape == y.shape ? m.r.below(4) : 3) {
      case 0: y = m.node({"Add", {y, other}}); break;
      case 1: y = m.node({"Mul", {m.node({"Sigmoid", {y}}), other}}); break;
      case 2: m.output(m.node({"MatMul", {y, m.transpose(other, {0, 2, 1})}})); break;
      default: m.output(m.r.chance(50) ? other : m.transpose(other, {0, 2, 1})); break;
    }
  }
  return y;
}

// A norm over the last axes, whose mean and deviation may be outputs, behind a residual sum that goes on beside it.
Value norm_of_sum(Maker& m, const Value& x) {
  const int64_t axis = m.r.of({2, -1, -1, 1, -2}), d = width(x);
  if (d < 3) throw Unfit("a norm over too little");
  const Value sum = m.node({"Add", {x, m.r.chance(50) ? m.activation(x) : m.around({d}, -1, 1)}});
  const Ints shape = axis == 2 || axis == -1 ? Ints{d} : Ints{steps(x), d};
  std::vector<Value> inputs{sum, m.around(shape, 0.5, 1.5)};
  if (m.r.chance(70)) inputs.push_back(m.around(shape, -0.5, 0.5));
  const Call call{"LayerNormalization", inputs, {{"axis", axis}, {"epsilon", 1e-3}}};
  const std::vector<Value> all = m.nodes(call, m.real == onnx::TensorProto::FLOAT ? m.r.of({1, 2, 3}) : 1);
  for (size_t k = 1; k < all.size(); ++k) m.output(all[k]);
  if (m.r.chance(50)) m.output(sum);
  return m.r.chance(50) ? m.node({"Add", {sum, m.activation(all[0])}}) : all[0];
}

}  // namespace

std::vector<Idiom> language_models() {
  constexpr Form s = Form::Sequence;
  return {{"cached_attention", s, cached_attention, 3},
          {"tied_weights", s, tied_weights, 1},
          {"products_of_one", s, products_of_one, 3},
          {"norm_of_sum", s, norm_of_sum}};
}

}  // namespace mlc::random_graphs
