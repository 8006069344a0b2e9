// What lies between: movements, shape arithmetic, other element types, small mixes as classic models have them.
#include <algorithm>

#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

int64_t some_axis(Maker& m, const Value& x) { return m.r.below(static_cast<int64_t>(x.rank())); }
int64_t extent(const Value& x, int64_t axis) { return x.shape[static_cast<size_t>(axis)]; }

Value some_transpose(Maker& m, const Value& x) {
  Ints perm;
  for (size_t k = 0; k < x.rank(); ++k) perm.push_back(static_cast<int64_t>(k));
  for (size_t k = x.rank(); k > 1; --k)
    std::swap(perm[k - 1], perm[static_cast<size_t>(m.r.below(static_cast<int64_t>(k)))]);
  return m.transpose(x, perm);
}

// There, something that has to be done in the other order, and back.
Value transposed_island(Maker& m, const Value& x) {
  if (x.rank() != 4) throw Unfit("no picture");
  const Value t = m.transpose(x, {0, 2, 3, 1});
  const int64_t c = x.shape[1];
  Value y =
      m.r.chance(50) ? m.node({"MatMul", {t, m.weights({c, c}, c, 1)}}) : m.node({"Softmax", {t}, {{"axis", -1}}});
  if (m.r.chance(50)) y = m.node({"Add", {y, m.around({c}, -0.5, 0.5)}});
  return m.transpose(y, {0, 3, 1, 2});
}

Value sliced(Maker& m, const Value& x) {
  const int64_t axis = some_axis(m, x), n = extent(x, axis);
  if (n < 2) throw Unfit("nothing to slice");
  switch (m.r.below(4)) {
    case 0: return m.slice(x, axis, -1, -100000, -1);
    case 1: return m.slice(x, axis, n - 1, 0, -1);
    case 2: return m.slice(x, axis, m.r.below(n / 2), n, m.r.within(1, 2));
    default: return m.slice(x, axis, 0, -1);
  }
}

Value halves_swapped(Maker& m, const Value& x) {
  const int64_t axis = some_axis(m, x), n = extent(x, axis);
  if (n < 2) throw Unfit("no halves");
  const std::vector<Value> parts = m.nodes({"Split", {x, m.ints({n / 2, n - n / 2})}, {{"axis", axis}}}, 2);
  return m.node({"Concat", {parts[1], m.r.chance(50) ? m.activation(parts[0]) : parts[0]}, {{"axis", axis}}});
}

Value looked_up(Maker& m, const Value& x) {
  const int64_t axis = some_axis(m, x), n = extent(x, axis), count = m.r.within(1, n + 2);
  return m.node({"Gather", {x, m.constant(kInt64, {count}, m.whole(count, -n, n - 1))}, {{"axis", axis}}});
}

Value tiled(Maker& m, const Value& x) {
  Ints repeats(x.rank(), 1);
  repeats[static_cast<size_t>(some_axis(m, x))] = 2;
  return m.node({"Tile", {x, m.ints(repeats)}});
}

Value edge(Maker& m, const Value& x) {
  Ints pads(2 * x.rank(), 0);
  const std::string mode = m.r.of({"edge", "constant", "reflect"});
  const size_t axis = static_cast<size_t>(some_axis(m, x));
  const int64_t most = mode == "reflect" ? x.shape[axis] - 1 : 2;
  pads[axis] = m.r.within(0, most), pads[axis + x.rank()] = m.r.within(0, most);
  return m.node({"Pad", {x, m.ints(pads)}, {{"mode", mode.c_str()}}});
}

// Reshape to a shape that is computed: x.view(x.size(0), -1) as exporters write it, and back.
Value shape_arithmetic(Maker& m, const Value& x) {
  if (x.rank() < 3) throw Unfit("nothing to flatten");
  const Value s = m.node({"Shape", {x}});
  const Value n = m.r.chance(50)
                      ? m.node({"Gather", {s, m.ints({0})}})
                      : m.node({"Unsqueeze", {m.node({"Gather", {s, m.constant(kInt64, {}, {0})}}), m.ints({0})}});
  const Value target = m.node({"Concat", {n, m.ints({-1})}, {{"axis", 0}}});
  const Value flat = m.node_as(x.type, {x.shape[0], x.elements() / x.shape[0]}, {"Reshape", {x, target}});
  const Value y = m.node({"Mul", {flat, m.node({"Tanh", {m.fold("ReduceMean", flat, {1}, true)}})}});
  return m.node_as(x.type, x.shape, {"Reshape", {y, s}});
}

Value chosen(Maker& m, const Value& x) {
  const Value other = m.r.chance(50) ? m.scalar(0.5) : m.node({"Neg", {x}});
  const Value condition = m.r.chance(50)
                              ? m.node({m.r.of({"Greater", "Less"}), {x, m.scalar(0.1)}})
                              : m.node({"Greater", {m.fold("ReduceMax", x, {some_axis(m, x)}, true), m.scalar(1)}});
  return m.node({"Where", {condition, x, other}});
}

Value mixed(Maker& m, const Value& x) {
  const Value lo = m.around({x.shape.back()}, -0.6, -0.2), hi = m.around({x.shape.back()}, 0.3, 1);
  switch (m.r.below(5)) {
    case 0: return m.node({"Min", {m.node({"Max", {x, lo}}), hi}});
    case 1: return m.node({"Mean", {x, m.node({"Abs", {x}}), hi}});
    case 2: return m.node({"Sum", {x, lo, m.node({"Sin", {x}})}});
    case 3: return m.node({"Pow", {m.node({"Add", {m.node({"Abs", {x}}), m.scalar(0.2)}}), m.scalar(1.5)}});
    default: return m.node({"Div", {x, m.node({"Add", {m.node({"Abs", {x}}), hi}})}});
  }
}

Value activated(Maker& m, const Value& x) { return m.activation(x); }

// Another element type for a while.
Value island(Maker& m, const Value& x) {
  const Type type = m.r.of({onnx::TensorProto::FLOAT16, onnx::TensorProto::DOUBLE, onnx::TensorProto::FLOAT16});
  if (x.type == type) throw Unfit("is of that type");
  const Type before = m.real;
  Value y = m.cast(x, type);
  m.real = type;
  const std::vector<Idiom> some = m.r.chance(40)  ? folds()
                                  : x.rank() == 4 ? pictures()
                                  : x.rank() == 3 ? sequences()
                                                  : glue();
  const Idiom& inner = m.r.of(some);
  if (!fits(inner, y) || inner.name == "island") throw Unfit("does not fit an island");
  y = inner.write(m, y);
  m.real = before;
  return m.cast(y, before);
}

Value integers(Maker& m, const Value& x) {
  const Type type = m.r.of({onnx::TensorProto::INT32, kInt64});
  const Value scaled = m.node({"Mul", {x, m.scalar(8.37)}});
  m.output(scaled);
  const Value i = m.cast(m.node({"Round", {scaled}}), type);
  const Value three = m.constant(type, {}, {3});
  Value y;
  switch (m.r.below(4)) {
    case 0: y = m.node({"Mod", {i, three}}); break;
    case 1: y = m.node({"Div", {i, three}}); break;
    case 2: y = m.fold("ReduceMax", i, {some_axis(m, x)}, true); break;
    default: y = m.node({"Sub", {m.node({"Mul", {i, three}}), m.fold("ReduceSum", i, {some_axis(m, x)}, true)}}); break;
  }
  m.output(y);
  return m.node({"Mul", {m.cast(y, x.type), m.scalar(0.125)}});
}

Value truths(Maker& m, const Value& x) {
  const Value a = m.node({"Greater", {x, m.scalar(0.05)}}), b = m.node({"LessOrEqual", {x, m.scalar(0.8)}});
  const Value c = m.node({m.r.of({"And", "Or", "Xor"}), {a, m.r.chance(30) ? m.node({"Not", {b}}) : b}});
  return m.node({"Mul", {x, m.cast(c, x.type)}});
}

Value one_hot(Maker& m, const Value& x) {
  const int64_t axis = some_axis(m, x), n = extent(x, axis);
  m.output(x);
  const Value best = m.node({"ArgMax", {x}, {{"axis", axis}, {"keepdims", 0}}});
  const Value hot =
      m.node_as(x.type, x.shape,
                {"OneHot",
                 {best, m.constant(kInt64, {}, {static_cast<double>(n)}), m.constant(x.type, {2}, {0, 1})},
                 {{"axis", axis}}});
  return m.node({"Add", {x, hot}});
}

// Rows written into others at positions that are an input.
Value scattered(Maker& m, const Value& x) {
  const int64_t axis = some_axis(m, x), n = extent(x, axis);
  std::vector<double> order(static_cast<size_t>(n));
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<double>(k);
  for (size_t k = order.size(); k > 1; --k)
    std::swap(order[k - 1], order[static_cast<size_t>(m.r.below(static_cast<int64_t>(k)))]);
  order.resize(static_cast<size_t>(m.r.within(1, n)));  // no position twice: their order would matter
  const int64_t count = static_cast<int64_t>(order.size());
  if (axis == 0) {
    Ints shape = x.shape;
    shape[0] = count;
    return m.node({"ScatterND", {x, m.constant(kInt64, {count, 1}, order), m.around(shape, -1, 1)}});
  }
  Ints shape(x.rank(), 1), full = x.shape;
  shape[static_cast<size_t>(axis)] = full[static_cast<size_t>(axis)] = count;
  const Value index = m.node({"Expand", {m.constant(kInt64, shape, order), m.ints(full)}});
  return m.node({"ScatterElements", {x, index, m.around(full, -1, 1)}, {{"axis", axis}}});
}

// Parts of one array replaced twice, or added to, while others read it: nothing may be written in its place.
Value scattered_twice(Maker& m, const Value& x) {
  const int64_t n = x.shape[0];
  const Value from = m.r.chance(70) ? m.activation(x) : x;
  const bool adds = m.r.chance(40);
  const auto scatter = [&](const Value& into) {
    const int64_t depth = x.rank() > 1 ? m.r.of({1, 2}) : 1, wide = depth == 2 ? x.shape[1] : 1;
    std::vector<int64_t> places(static_cast<size_t>(n * wide));
    for (size_t k = 0; k < places.size(); ++k) places[k] = static_cast<int64_t>(k);
    for (size_t k = places.size(); k > 1; --k) std::swap(places[k - 1], places[static_cast<size_t>(m.r.below(static_cast<int64_t>(k)))]);
    places.resize(static_cast<size_t>(m.r.within(1, std::min<int64_t>(n * wide, 9))));
    if (adds) places.push_back(places[0]);
    std::vector<double> index;
    for (const int64_t place : places) {
      index.push_back(static_cast<double>(place / wide));
      if (depth == 2) index.push_back(static_cast<double>(place % wide));
    }
    const int64_t count = static_cast<int64_t>(places.size());
    Ints shape(x.shape.begin() + depth, x.shape.end());
    shape.insert(shape.begin(), count);
    const Value at = m.r.chance(50) ? m.constant(kInt64, {count, depth}, index) : m.input(kInt64, {count, depth}, "--", index);
    std::vector<Attr> attrs;
    if (adds) attrs.push_back({"reduction", "add"});
    return m.node({"ScatterND", {into, at, m.around(shape, -1, 1)}, attrs});
  };
  const Value a = scatter(from), b = scatter(m.r.chance(50) ? from : a);
  m.output(b);
  if (m.r.chance(50)) m.output(m.node({"Sub", {from, a}}));
  return m.r.chance(50) ? m.node({"Add", {a, b}}) : a;
}

// [N, L, ...] with every row turned around up to its own length.
Value turned_rows(Maker& m, const Value& x) {
  if (x.rank() < 2) throw Unfit("a vector");
  const Value lengths = m.input(kInt64, {x.shape[0]}, "N", m.whole(x.shape[0], 1, x.shape[1]));
  return m.node({"ReverseSequence", {x, lengths}, {{"batch_axis", 0}, {"time_axis", 1}}});
}

Value triangle(Maker& m, const Value& x) {
  if (x.rank() < 2) throw Unfit("a vector");
  return m.node({"Trilu", {x}, {{"upper", m.r.of({0, 1})}}});
}

Value gemm(Maker& m, const Value& x) {
  const int64_t d = x.shape.back(), out = m.r.within(1, 10), rows = x.elements() / d;
  const Value flat = x.rank() == 2 ? x : m.reshape(x, {-1, d});
  const bool t = m.r.chance(50);
  const Value y = m.node({"Gemm",
                          {flat, m.weights(t ? Ints{out, d} : Ints{d, out}, d, t ? 0 : 1), m.around({out}, -0.4, 0.4)},
                          {{"transB", t ? 1 : 0}, {"alpha", m.r.of({1.0, 0.5})}}});
  if (x.rank() == 2) return y;
  Ints shape = x.shape;
  shape.back() = out;
  if (rows != y.shape[0]) throw Unfit("rows");
  return m.reshape(y, shape);
}

Value picture_to_sequence(Maker& m, const Value& x) {
  const Value flat = m.reshape(x, {0, 0, -1});
  return m.r.chance(70) ? m.transpose(flat, {0, 2, 1}) : flat;
}

Value sequence_to_picture(Maker& m, const Value& x) {
  const int64_t l = x.shape[1];
  int64_t h = 1;
  for (int64_t k = 2; k * k <= l; ++k)
    if (l % k == 0) h = k;
  return m.reshape(m.transpose(x, {0, 2, 1}), {0, x.shape[2], h, l / h});
}

Value windows(Maker& m, const Value& x) {
  const int64_t s = m.r.of({2, 3}), c = x.shape[1], h = x.shape[2], w = x.shape[3];
  if (h % s || w % s) throw Unfit("windows do not divide it");
  const Value six = m.reshape(m.transpose(x, {0, 2, 3, 1}), {x.shape[0], h / s, s, w / s, s, c});
  return m.reshape(m.transpose(six, {0, 1, 3, 2, 4, 5}), {-1, s * s, c});
}

}  // namespace

std::vector<Idiom> glue() {
  constexpr Form a = Form::Any, p = Form::Picture;
  return {{"transpose", a, some_transpose},
          {"transposed_island", p, transposed_island},
          {"slice", a, sliced},
          {"halves_swapped", a, halves_swapped},
          {"looked_up", a, looked_up},
          {"tiled", a, tiled, 1},
          {"edge", a, edge},
          {"shape_arithmetic", a, shape_arithmetic},
          {"chosen", a, chosen},
          {"mixed", a, mixed},
          {"activation", a, activated},
          {"island", a, island, 3},
          {"integers", a, integers},
          {"truths", a, truths},
          {"one_hot", a, one_hot, 1},
          {"triangle", a, triangle, 1},
          {"gemm", a, gemm},
          {"scattered", a, scattered},
          {"scattered_twice", a, scattered_twice},
          {"turned_rows", a, turned_rows, 1},
          {"picture_to_sequence", p, picture_to_sequence},
          {"sequence_to_picture", Form::Sequence, sequence_to_picture},
          {"windows", p, windows}};
}

}  // namespace mlc::random_graphs
