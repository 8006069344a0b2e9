// Networks of pictures: convolutions, normalisations, pools, attention over channels, resizes.
#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

int64_t channels_of(const Value& x) { return x.shape[1]; }

// [C, 1, 1], which multiplies a picture by channel.
Value by_channel(Maker& m, const Value& x, double low, double high) {
  return m.around({channels_of(x), 1, 1}, low, high);
}

Value pick_channels(Maker& m, const Value& x, int64_t fan, std::vector<Attr> attrs, int64_t kh, int64_t kw,
                    int64_t groups) {
  const int64_t c = channels_of(x);
  const int64_t out = groups == c ? c * m.r.of({1, 1, 2}) : groups * m.r.within(1, groups > 1 ? 4 : 12);
  if (out * fan * x.elements() / c > 600000) throw Unfit("a convolution that takes long");
  attrs.push_back({"group", groups});
  std::vector<Value> inputs{x, m.weights({out, c / groups, kh, kw}, fan)};
  if (m.r.chance(60)) inputs.push_back(m.around({out}, -0.5, 0.5));
  return m.node({"Conv", inputs, attrs});
}

Value conv(Maker& m, const Value& x) {
  const int64_t c = channels_of(x);
  const int64_t kh = m.r.of({1, 3, 3, 5, 2}), kw = m.r.chance(75) ? kh : m.r.of({1, 2, 3, 4});
  int64_t groups = 1;
  if (m.r.chance(25)) groups = c;
  else if (m.r.chance(25)) groups = c % 2 == 0 ? 2 : c % 3 == 0 ? 3 : 1;
  std::vector<Attr> attrs;
  const int64_t d = m.r.chance(15) ? 2 : 1;
  const bool fits = x.shape[2] >= kh && x.shape[3] >= kw;  // else nothing is left of the picture
  if (m.r.chance(20) && d == 1) attrs.push_back({"auto_pad", fits ? m.r.of({"SAME_UPPER", "SAME_LOWER", "VALID"}) : m.r.of({"SAME_UPPER", "SAME_LOWER"})});
  else if (m.r.chance(70)) attrs.push_back({"pads", Ints{kh / 2 * d, kw / 2 * d, kh / 2 * d, kw / 2 * d}});
  else if (m.r.chance(70)) attrs.push_back({"pads", Ints{m.r.below(kh), m.r.below(kw), m.r.below(kh), m.r.below(kw)}});
  if (d != 1) attrs.push_back({"dilations", Ints{d, d}});
  if (m.r.chance(30))
    attrs.push_back({"strides", m.r.chance(80) ? Ints{2, 2} : Ints{m.r.within(1, 3), m.r.within(1, 2)}});
  const Value y = pick_channels(m, x, c / groups * kh * kw, attrs, kh, kw, groups);
  return m.r.chance(70) ? m.activation(y) : y;
}

Value batch_norm(Maker& m, const Value& x) {
  const int64_t c = channels_of(x);
  return m.node(
      {"BatchNormalization",
       {x, m.around({c}, 0.5, 1.5), m.around({c}, -0.5, 0.5), m.around({c}, -0.3, 0.3), m.around({c}, 0.3, 2)},
       {{"epsilon", 1e-4}}});
}

Value conv_bn_act(Maker& m, const Value& x) { return m.activation(batch_norm(m, some_convolution(m, x, 2, 10))); }

Value depthwise_separable(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), k = m.r.of({3, 3, 5}), s = m.r.of({1, 1, 2});
  const Value d = m.node({"Conv",
                          {x, m.weights({c, 1, k, k}, k * k), m.around({c}, -0.3, 0.3)},
                          {{"group", c}, {"pads", Ints{k / 2, k / 2, k / 2, k / 2}}, {"strides", Ints{s, s}}}});
  return m.activation(some_convolution(m, m.activation(d), 2, 12, {1}));
}

Value transposed(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), k = m.r.of({2, 3, 4}), out = m.r.within(1, 6);
  if (c * out * k * k * x.elements() / c > 400000) throw Unfit("takes long");
  std::vector<Attr> attrs{{"strides", Ints{2, 2}}};
  if (m.r.chance(50)) attrs.push_back({"pads", Ints{k / 2, k / 2, k / 2, k / 2}});
  if (m.r.chance(30)) attrs.push_back({"output_padding", Ints{1, 1}});
  return m.node({"ConvTranspose", {x, m.weights({c, out, k, k}, c * k * k / 4 + 1, 1)}, attrs});
}

// Steps, dilations, groups and borders that differ by axis: what the common layers leave out.
Value odd_convolution(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), groups = c % 4 == 0 ? m.r.of({1, 2, 4}) : c % 2 == 0 ? m.r.of({1, 2}) : c % 3 == 0 ? m.r.of({1, 3}) : 1;
  const int64_t each = m.r.of({1, 2, 3, 8, 16}), kh = m.r.within(1, 5), kw = m.r.within(1, 4), dh = m.r.within(1, 3), dw = m.r.within(1, 2);
  const int64_t high = (kh - 1) * dh, wide = (kw - 1) * dw;  // what a window takes beyond its first place
  if (c * each * kh * kw * x.shape[2] * x.shape[3] * x.shape[0] > 400000) throw Unfit("takes long");
  std::vector<Value> inputs{x, m.weights({groups * each, c / groups, kh, kw}, c / groups * kh * kw)};
  if (m.r.chance(60)) inputs.push_back(m.around({groups * each}, -0.4, 0.4));
  return m.node({"Conv", inputs, {{"group", groups}, {"strides", Ints{m.r.of({1, 2, 3, 5}), m.r.of({1, 2, 3})}}, {"dilations", Ints{dh, dw}},
                                  {"pads", Ints{m.r.within(0, high), m.r.within(0, wide), m.r.within(0, high), m.r.within(0, wide)}}}});
}

Value odd_transposed(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), groups = c % 4 == 0 ? m.r.of({1, 2, 4}) : c % 2 == 0 ? m.r.of({1, 2}) : c % 3 == 0 ? m.r.of({1, 3}) : 1;
  const int64_t out = m.r.within(1, 6), kh = m.r.within(1, 5), kw = m.r.within(1, 4), dh = m.r.within(1, 2), dw = m.r.within(1, 3), sh = m.r.within(1, 4), sw = m.r.within(1, 3);
  const int64_t high = (kh - 1) * dh, wide = (kw - 1) * dw;
  if (c * out * kh * kw * x.shape[2] * x.shape[3] * x.shape[0] > 400000) throw Unfit("takes long");
  std::vector<Value> inputs{x, m.weights({c, out, kh, kw}, c * kh * kw / 4 + 1, 1)};
  if (m.r.chance(60)) inputs.push_back(m.around({groups * out}, -0.4, 0.4));
  std::vector<Attr> attrs{{"group", groups}, {"strides", Ints{sh, sw}}, {"dilations", Ints{dh, dw}}};
  if (m.r.chance(60)) attrs.push_back({"pads", Ints{m.r.within(0, high / 2), m.r.within(0, wide / 2), m.r.within(0, high / 2), m.r.within(0, wide / 2)}});
  if (m.r.chance(40)) attrs.push_back({"output_padding", Ints{m.r.below(sh), m.r.below(sw)}});
  return m.node({"ConvTranspose", inputs, attrs});
}

Value pool(Maker& m, const Value& x) {
  const std::string op = m.r.of({"MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"});
  const int64_t kh = m.r.within(2, 4), kw = m.r.chance(70) ? kh : m.r.within(1, 3);
  std::vector<Attr> attrs{{"kernel_shape", Ints{kh, kw}}};
  const bool is_strided = m.r.chance(60);
  const int64_t sh = is_strided ? m.r.within(1, 3) : 1, sw = is_strided ? m.r.within(1, 3) : 1;
  if (is_strided) attrs.push_back({"strides", Ints{sh, sw}});
  const bool is_same = m.r.chance(25), is_padded = !is_same && m.r.chance(60), rounds_up = op != "LpPool" && m.r.chance(30);
  // "SAME" rounds up by itself, and libonnx adds to that where ceil_mode is set. It also counts a last window that begins behind the
  // picture, which newer definitions leave out: there is none without padding and with steps within the window.
  const bool may_round_up = !is_same && sh <= kh && sw <= kw;
  if (is_same) attrs.push_back({"auto_pad", m.r.of({"SAME_UPPER", "SAME_LOWER"})});
  else if (may_round_up && rounds_up) attrs.push_back({"ceil_mode", 1});
  else if (is_padded) attrs.push_back({"pads", Ints{m.r.below(kh), m.r.below(kw), m.r.below(kh), m.r.below(kw)}});
  if (op == "AveragePool" && m.r.chance(40)) attrs.push_back({"count_include_pad", 1});
  if (op == "MaxPool" && m.r.chance(15)) attrs.push_back({"dilations", Ints{2, 2}});
  return m.node({op, {x}, attrs});
}

Value global_pool(Maker& m, const Value& x) {
  const Value g = m.node({m.r.of({"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "GlobalAveragePool"}), {x}});
  return m.r.chance(50) ? m.node({"Add", {x, g}}) : g;
}

// Squeeze and excitation.
Value squeeze_excite(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), mid = m.r.within(1, 4);
  const Value g = m.r.chance(50) ? m.node({"GlobalAveragePool", {x}}) : m.fold("ReduceMean", x, {2, 3}, true);
  const Value a = m.activation(m.node({"Conv", {g, m.weights({mid, c, 1, 1}, c), m.around({mid}, -0.2, 0.5)}}));
  const Value b = m.node({"Conv", {a, m.weights({c, mid, 1, 1}, mid), m.around({c}, -0.5, 0.5)}});
  return m.node({"Mul", {x, m.node({m.r.of({"Sigmoid", "HardSigmoid"}), {b}})}});
}

// Attention over channels, then over places (CBAM).
Value cbam(Maker& m, const Value& x) {
  const Value p = m.r.chance(60) ? padded_window(m, x) : x;
  const Value both =
      m.node({"Concat", {m.fold("ReduceMean", p, {1}, true), m.fold("ReduceMax", p, {1}, true)}, {{"axis", 1}}});
  const int64_t k = m.r.of({3, 7});
  const Value c =
      m.node({"Conv", {both, m.weights({1, 2, k, k}, 2 * k * k)}, {{"pads", Ints{k / 2, k / 2, k / 2, k / 2}}}});
  return m.node({"Mul", {p, m.node({"Sigmoid", {c}})}});
}

Value residual(Maker& m, const Value& x) {
  const int64_t c = channels_of(x);
  Value y = m.activation(convolution(m, x, c, 3));
  if (m.r.chance(40)) y = batch_norm(m, y);
  if (m.r.chance(50)) y = convolution(m, y, c, m.r.of({1, 3}));
  return m.r.chance(60) ? m.activation(m.node({"Add", {y, x}})) : m.node({"Add", {x, y}});
}

// Dense blocks: what is concatenated is read again.
Value growing(Maker& m, const Value& x) {
  Value all = x;
  for (int64_t k = m.r.within(1, 3); k > 0; --k)
    all = m.node({"Concat", {all, m.activation(some_convolution(m, all, 1, 3, {3}))}, {{"axis", 1}}});
  return all;
}

Value inception(Maker& m, const Value& x) {
  const Value p = m.node({"MaxPool", {x}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}});
  std::vector<Value> parts{some_convolution(m, x, 1, 4, {1}), m.activation(some_convolution(m, x, 1, 4, {3})),
                           some_convolution(m, p, 1, 3, {1})};
  if (m.r.chance(40))
    parts.push_back(m.node({"AveragePool", {x}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}}));
  return m.activation(m.node({"Concat", parts, {{"axis", 1}}}));
}

Value shuffled_channels(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), g = c % 2 == 0 ? 2 : 3;
  if (c % g != 0) throw Unfit("channels that cannot be shuffled");
  const Value five = m.reshape(x, {x.shape[0], g, c / g, x.shape[2], x.shape[3]});
  return m.reshape(m.transpose(five, {0, 2, 1, 3, 4}), {x.shape[0], c, x.shape[2], x.shape[3]});
}

Value resized(Maker& m, const Value& x) {
  const bool nearest = m.r.chance(50);
  std::vector<Attr> attrs{
      {"mode", nearest          ? "nearest"
               : m.r.chance(80) ? "linear"
                                : "cubic"},
      {"coordinate_transformation_mode", m.r.of({"asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"})}};
  if (nearest) attrs.push_back({"nearest_mode", m.r.of({"floor", "round_prefer_floor", "ceil"})});
  const bool sizes = m.r.chance(30);
  const Value none;
  if (sizes)
    return m.node({"Resize",
                   {x, none, none,
                    m.ints({x.shape[0], x.shape[1], m.r.within(1, 2 * x.shape[2]), m.r.within(1, 2 * x.shape[3])})},
                   attrs});
  const double h = m.r.of({1.0, 2.0, 2.0, 0.5, 3.0}), w = m.r.chance(70) ? h : m.r.of({1.0, 2.0, 1.5});
  return m.node({"Resize", {x, none, m.constant(onnx::TensorProto::FLOAT, {4}, {1, 1, h, w})}, attrs});
}

Value pixel_shuffle(Maker& m, const Value& x) {
  const int64_t c = 4 * m.r.within(1, 2);
  const Value y = convolution(m, x, c, m.r.of({1, 3}));
  if (m.r.chance(50)) return m.node({"DepthToSpace", {y}, {{"blocksize", 2}, {"mode", m.r.of({"DCR", "CRD"})}}});
  const Value six = m.reshape(y, {y.shape[0], c / 4, 2, 2, y.shape[2], y.shape[3]});
  return m.reshape(m.transpose(six, {0, 1, 4, 2, 5, 3}), {y.shape[0], c / 4, y.shape[2] * 2, y.shape[3] * 2});
}

Value space_to_depth(Maker& m, const Value& x) {
  if (x.shape[2] % 2 || x.shape[3] % 2) throw Unfit("odd extents");
  if (m.r.chance(40)) return m.node({"SpaceToDepth", {x}, {{"blocksize", 2}}});
  std::vector<Value> parts;  // as YOLOv5's Focus
  for (int64_t w : {0, 1})
    for (int64_t h : {0, 1}) parts.push_back(m.slice(m.slice(x, 2, h, 100000, 2), 3, w, 100000, 2));
  return m.node({"Concat", parts, {{"axis", 1}}});
}

Value padded(Maker& m, const Value& x) {
  const std::string mode = m.r.of({"constant", "reflect", "edge", "reflect"});
  const auto some = [&](size_t axis) { return m.r.below(mode == "reflect" ? std::min<int64_t>(3, x.shape[axis]) : 3); };
  const Value pads = m.ints({0, mode == "constant" ? m.r.below(2) : 0, some(2), some(3), 0, 0, some(2), some(3)});
  std::vector<Value> inputs{x, pads};
  if (mode == "constant" && m.r.chance(50)) inputs.push_back(m.scalar(m.r.of({0.0, -1.0, 0.5})));
  return m.node({"Pad", inputs, {{"mode", mode.c_str()}}});
}

Value instance_norm(Maker& m, const Value& x) {
  const int64_t c = channels_of(x);
  if (x.shape[2] * x.shape[3] < 4) throw Unfit("a norm over too little");
  return m.node({"InstanceNormalization", {x, m.around({c}, 0.5, 1.5), m.around({c}, -0.5, 0.5)}, {{"epsilon", 1e-3}}});
}

// By InstanceNormalization of [N, groups, -1], as torch exports it.
Value group_norm(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), g = c % 2 == 0 ? 2 : c % 3 == 0 ? 3 : 1;
  if (x.elements() / x.shape[0] / g < 4) throw Unfit("a norm over too little");
  const Value y = m.node({"InstanceNormalization",
                          {m.reshape(x, {0, g, -1}), m.around({g}, 1, 1), m.around({g}, 0, 0)},
                          {{"epsilon", 1e-3}}});
  const Value back = m.reshape(y, {x.shape[0], c, x.shape[2], x.shape[3]});
  return m.node({"Add", {m.node({"Mul", {back, by_channel(m, x, 0.5, 1.5)}}), by_channel(m, x, -0.5, 0.5)}});
}

// LayerNorm2d by hand, over channels or whatever else.
Value norm_by_hand(Maker& m, const Value& x) {
  const Ints axes = m.r.of(std::vector<Ints>{{1}, {1}, {2, 3}, {1, 2, 3}, {3}, {-1}});
  int64_t count = 1;
  for (int64_t axis : axes) count *= x.shape[static_cast<size_t>(axis < 0 ? axis + 4 : axis)];
  if (count < 3) throw Unfit("a norm over too little");
  const Value from = m.r.chance(40) ? padded_window(m, x) : x;
  const Value d = m.node({"Sub", {from, m.fold("ReduceMean", from, axes, true)}});
  const Value square = m.r.chance(50) ? m.node({"Pow", {d, m.scalar(2)}}) : m.node({"Mul", {d, d}});
  const Value root = m.node({"Sqrt", {m.node({"Add", {m.fold("ReduceMean", square, axes, true), m.scalar(1e-2)}})}});
  const Value y = m.node({"Div", {d, root}});
  return m.r.chance(70)
             ? m.node({"Add", {m.node({"Mul", {y, by_channel(m, y, 0.5, 1.5)}}), by_channel(m, y, -0.5, 0.5)}})
             : y;
}

Value lrn_chain(Maker& m, const Value& x) {
  const Value y = m.node({"LRN",
                          {m.r.chance(50) ? m.node({"Relu", {x}}) : x},
                          {{"size", m.r.of({3, 5, 4, 2})},
                           {"alpha", m.r.of({1e-1, 1e-3, 0.5})},
                           {"beta", m.r.of({0.75, 0.5})},
                           {"bias", m.r.of({1.0, 2.0})}}});
  switch (m.r.below(4)) {
    case 0: return m.node({"MaxPool", {y}, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}});
    case 1: return m.node({"Pad", {y, m.ints({0, 0, 1, 0, 0, 0, 2, 1})}});
    case 2: return instance_norm(m, y);
    default: return m.node({"Add", {y, m.node({"GlobalAveragePool", {y}})}});
  }
}

// A warp by a field of offsets, as optical flow and spatial transformers have it.
Value warped(Maker& m, const Value& x) {
  const int64_t h = m.r.within(2, 9), w = m.r.within(2, 9);
  const Value grid = m.input(m.real, {x.shape[0], h, w, 2}, "N---", m.reals(x.shape[0] * h * w * 2, -1.2, 1.2));
  return m.node_as(x.type, {x.shape[0], x.shape[1], h, w},
                   {"GridSample",
                    {x, grid},
                    {{"mode", m.r.of({"bilinear", "bilinear", "bicubic"})},
                     {"padding_mode", m.r.of({"zeros", "border", "reflection"})},
                     {"align_corners", m.r.of({0, 1})}}});
}

// Self-attention over the places of a picture: SAGAN, non-local blocks, DANet.
Value non_local(Maker& m, const Value& x) {
  const int64_t c = channels_of(x), places = x.shape[2] * x.shape[3];
  if (places > 200 || places * places * x.shape[0] > 20000) throw Unfit("too many places");
  const bool is_projected = m.r.chance(40);
  const Value a = is_projected ? convolution(m, x, c, 1) : x;
  const Value q = m.reshape(a, {0, c, -1}),
              v = is_projected && m.r.chance(50) ? m.reshape(convolution(m, x, c, 1), {0, c, -1}) : q;
  const Value t = m.transpose(q, {0, 2, 1});
  const Value s = m.node(
      {"Softmax", {m.node({"Mul", {m.node({"MatMul", {t, q}}), m.scalar(0.25)}})}, {{"axis", m.r.of({-1, -1, 1})}}});
  Value y;
  switch (m.r.below(3)) {
    case 0: y = m.node({"MatMul", {v, s}}); break;
    case 1: y = m.node({"MatMul", {v, m.transpose(s, {0, 2, 1})}}); break;
    default: y = m.transpose(m.node({"MatMul", {s, m.transpose(v, {0, 2, 1})}}), {0, 2, 1});
  }
  const Value back =
      m.r.chance(50) ? m.node_as(x.type, x.shape, {"Reshape", {y, m.node({"Shape", {x}})}}) : m.reshape(y, x.shape);
  return m.node({"Add", {m.node({"Mul", {back, m.scalar(0.5)}}), x}});
}

}  // namespace

Value convolution(Maker& m, const Value& x, int64_t channels, int64_t kernel) {
  const int64_t c = x.shape[1], p = kernel / 2;
  if (channels * kernel * kernel * x.elements() > 600000) throw Unfit("a convolution that takes long");
  std::vector<Value> inputs{x, m.weights({channels, c, kernel, kernel}, c * kernel * kernel)};
  if (m.r.chance(70)) inputs.push_back(m.around({channels}, -0.5, 0.5));
  return m.node({"Conv", inputs, {{"pads", Ints{p, p, p, p}}}});
}

Value some_convolution(Maker& m, const Value& x, int64_t low, int64_t high, std::initializer_list<int64_t> kernels) {
  const int64_t channels = m.r.within(low, high), kernel = m.r.of(kernels);
  return convolution(m, x, channels, kernel);
}

Value padded_window(Maker& m, const Value& x) {
  const int64_t k = m.r.of({3, 3, 5, 2}), p = k == 2 ? 1 : k / 2;
  const int64_t s = m.r.of({1, 1, 1, 2});
  const std::vector<Attr> attrs{{"kernel_shape", Ints{k, k}}, {"pads", Ints{p, p, p, p}}, {"strides", Ints{s, s}}};
  switch (m.r.below(6)) {
    case 0: return m.node({"AveragePool", {x}, attrs});
    case 1: return m.node({"LpPool", {x}, attrs});
    case 2: return m.node({"LRN", {x}, {{"size", m.r.of({3, 5, 4})}, {"alpha", 0.1}, {"bias", 1.5}}});
    case 3: return m.node({"MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"auto_pad", "SAME_UPPER"}}});
    case 4: {
      const int64_t c = x.shape[1];
      return m.node({"Conv", {x, m.weights({c, 1, 3, 3}, 9)}, {{"group", c}, {"pads", Ints{1, 1, 1, 1}}}});
    }
    default: return m.node({"MaxPool", {x}, attrs});
  }
}

std::vector<Idiom> pictures() {
  constexpr Form p = Form::Picture;
  return {{"conv", p, conv, 6},
          {"conv_bn_act", p, conv_bn_act, 3},
          {"depthwise_separable", p, depthwise_separable},
          {"conv_transpose", p, transposed},
          {"odd_convolution", p, odd_convolution},
          {"odd_transposed", p, odd_transposed},
          {"pool", p, pool, 4},
          {"global_pool", p, global_pool},
          {"squeeze_excite", p, squeeze_excite},
          {"cbam", p, cbam, 3},
          {"residual", p, residual, 3},
          {"growing", p, growing},
          {"inception", p, inception},
          {"shuffled_channels", p, shuffled_channels},
          {"resize", p, resized, 3},
          {"pixel_shuffle", p, pixel_shuffle},
          {"space_to_depth", p, space_to_depth},
          {"pad", p, padded},
          {"instance_norm", p, instance_norm},
          {"group_norm", p, group_norm},
          {"norm_by_hand", p, norm_by_hand, 3},
          {"lrn_chain", p, lrn_chain, 3},
          {"warped", p, warped, 1},
          {"non_local", p, non_local, 3}};
}

}  // namespace mlc::random_graphs
