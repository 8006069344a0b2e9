#include "schema/pipeline/parse_step.h"

#include <algorithm>
#include <tuple>

#include "schema/pipeline/parse_sound.h"

namespace mlc::pipeline {
namespace {

Color color_of(ObjectReader& r, const Json* v, std::string_view key) {
  return r.choice<Color>(v, key, {{"rgb", Color::Rgb}, {"bgr", Color::Bgr}, {"gray", Color::Gray}});
}

Like like_of(ObjectReader& r) {
  return r.choice<Like>(r.required("like"), "like", {{"pillow", Like::Pillow}, {"opencv", Like::OpenCv}});
}

// The formula for grey: asked for where grey is made, refused elsewhere.
Like gray_formula(ObjectReader& r, bool makes_gray) {
  if (makes_gray) return like_of(r);
  if (const Json* v = r.optional("like")) r.wrong(*v, "like", "has no meaning here: no grey is made");
  return Like::Pillow;
}

Op decode_image(ObjectReader& r, const Value&, Value& out) {
  DecodeImage s;
  s.color = color_of(r, r.required("color"), "color");
  s.gray = gray_formula(r, s.color == Color::Gray);
  s.exif = r.choice<bool>(r.required("orient"), "orient", {{"exif", true}, {"ignore", false}});
  const Json* alpha = r.required("alpha");
  if (alpha && alpha->text().starts_with("over ")) {
    s.alpha = AlphaMode::Over;
    if (auto rgb = parse_color(alpha->text().substr(5)))
      s.background = *rgb;
    else
      r.wrong(*alpha, "alpha", "is '" + std::string(alpha->text().substr(0, 40)) + "', expected 'over #rrggbb'");
  } else {
    s.alpha = r.choice<AlphaMode>(
        alpha, "alpha", {{"drop", AlphaMode::Drop}, {"keep", AlphaMode::Keep}, {"over #rrggbb", AlphaMode::Over}});
  }
  Picture p;
  p.alpha = s.alpha == AlphaMode::Keep;
  p.channels = (s.color == Color::Gray ? 1 : 3) + p.alpha;
  p.color = s.color;
  out.picture = p;
  return s;
}

Op decode_audio(ObjectReader& r, const Value&, Value& out) {
  out.is_sound = true;
  DecodeAudio s;
  s.channels = r.choice<Channels>(r.required("channels"), "channels",
                                  {{"first", Channels::First}, {"mean", Channels::Mean}, {"keep", Channels::Keep}});
  s.rate = static_cast<uint32_t>(r.integer(r.required("rate"), "rate", 1, 1 << 24));
  return s;
}

// {"of": "end", "within": 4096, "strip": "white space", "length": 1024}
FileBytes::Part read_byte_part(ObjectReader& r, const Json& part) {
  FileBytes::Part s;
  if (!part.is(Json::Kind::Object)) {
    r.wrong(part, "parts", "holds something that is not {\"of\", \"within\", \"strip\", \"length\"}");
    return s;
  }
  ObjectReader one(part, "'parts' of file_bytes", r.problems());
  s.from_end = one.choice<bool>(one.required("of"), "of", {{"start", false}, {"end", true}});
  s.within = one.integer(one.required("within"), "within", 1, kMaxFileBytes);
  s.strips = one.choice<bool>(one.required("strip"), "strip", {{"none", false}, {"white space", true}});
  s.length = one.integer(one.required("length"), "length", 1, kMaxFileBytes);
  one.finish();
  return s;
}

Op file_bytes(ObjectReader& r, const Value&, Value&) {
  FileBytes s;
  const Json* parts = r.required("parts");
  if (parts && (!parts->is(Json::Kind::Array) || parts->size() == 0 || parts->size() > kMaxByteParts))
    r.wrong(*parts, "parts", "is no list of 1 to " + std::to_string(kMaxByteParts) + " parts");
  else if (parts)
    for (const Json& part : parts->items()) s.parts.push_back(read_byte_part(r, part));
  if (s.length() > kMaxFileBytes)
    r.wrong(*parts, "parts", "are " + std::to_string(s.length()) + " bytes together, at most " + std::to_string(kMaxFileBytes));
  s.fill = r.integer(r.required("fill"), "fill", INT32_MIN, INT32_MAX);
  if (const Json* least = r.optional("least")) s.least = r.integer(least, "least", 0, s.parts.empty() ? kMaxFileBytes : s.parts[0].length);
  return s;
}

constexpr int64_t kMostTokens = 1 << 20;  // of a text
constexpr int64_t kMostIds = 1 << 22;     // of a tokenizer
constexpr size_t kMostPrompt = 1 << 14;   // bytes

// "truncate": {"max": 256, "side": "right"} or "none"; of pairs with "cut".
void read_truncate(ObjectReader& r, bool is_pair, Tokenize& s) {
  const Json* v = r.required("truncate");
  if (v && v->is(Json::Kind::String) && v->text() == "none") return;
  if (v && !v->is(Json::Kind::Object)) return r.wrong(*v, "truncate", "is neither \"none\" nor {\"max\", \"side\"}");
  if (!v) return;
  ObjectReader one(*v, "'truncate'", r.problems());
  s.truncates = true;
  s.max = one.integer(one.required("max"), "max", 1, kMostTokens);
  s.cut_left = one.choice<bool>(one.required("side"), "side", {{"right", false}, {"left", true}});
  if (const Json* stride = one.optional("stride")) {
    s.overlaps = true;
    s.stride = one.integer(stride, "stride", 0, s.max > 0 ? s.max - 1 : kMostTokens);
  }
  using Cut = Tokenize::Cut;
  if (is_pair) s.cut = one.choice<Cut>(one.required("cut"), "cut", {{"longest", Cut::Longest}, {"first", Cut::First}, {"second", Cut::Second}});
  one.finish();
}

// "pad": {"to": "longest", "longest_of_group" or a length, "side": "right", "id": 0}
void read_pad(ObjectReader& r, Tokenize& s) {
  const Json* v = r.required("pad");
  if (v && !v->is(Json::Kind::Object)) return r.wrong(*v, "pad", "is not {\"to\", \"side\", \"id\"}");
  if (!v) return;
  ObjectReader one(*v, "'pad'", r.problems());
  const Json* to = one.required("to");
  s.groups = to && to->is(Json::Kind::String) && to->text() == "longest_of_group";
  if (to && to->is(Json::Kind::String) && to->text() != "longest" && !s.groups)
    one.wrong(*to, "to", "is none of \"longest\", \"longest_of_group\" and a whole number");
  else if (to && !to->is(Json::Kind::String)) s.pad_to = one.integer(to, "to", 1, kMostTokens);
  if (s.pad_to > 0 && (!s.truncates || s.max > s.pad_to))
    one.wrong(*to, "to", "is " + std::to_string(s.pad_to) + ", and a text may have more tokens: 'truncate' must have a 'max' of at most that");
  s.pad_left = one.choice<bool>(one.required("side"), "side", {{"right", false}, {"left", true}});
  s.pad_id = one.integer(one.required("id"), "id", 0, kMostIds);
  one.finish();
}

Op tokenize(ObjectReader& r, const Value&, Value&) {
  Tokenize s;
  const Json* in = r.optional("in");
  const bool is_pair = in && in->is(Json::Kind::Object);
  s.tokenizer = r.string(r.required("tokenizer"), "tokenizer");
  if (const Json* v = r.optional("prompt")) {
    s.prompt = r.string(v, "prompt");
    if (s.prompt.size() > kMostPrompt) r.wrong(*v, "prompt", "has " + std::to_string(s.prompt.size()) + " bytes, at most " + std::to_string(kMostPrompt));
  }
  s.special_tokens = r.boolean(r.required("special_tokens"), "special_tokens");
  read_truncate(r, is_pair, s);
  read_pad(r, s);
  return s;
}

Kernel kernel_of(ObjectReader& r, Like like) {
  const Json* v = r.required("kernel");
  if (like == Like::Pillow)
    return r.choice<Kernel>(v, "kernel",
                            {{"nearest", Kernel::Nearest},
                             {"box", Kernel::Box},
                             {"bilinear", Kernel::Bilinear},
                             {"hamming", Kernel::Hamming},
                             {"bicubic", Kernel::Bicubic},
                             {"lanczos", Kernel::Lanczos}});
  return r.choice<Kernel>(v, "kernel", {{"nearest", Kernel::Nearest}, {"linear", Kernel::Linear}});
}

// Resizing is defined on bytes, and on colours that do not wait for an alpha channel: Pillow premultiplies those.
void need_plain_bytes(ObjectReader& r, const Json* v, std::string_view key, const Picture& p) {
  if (!v) return;
  if (p.dtype != DType::U8) r.wrong(*v, key, "needs a picture of bytes: resize before 'normalize' and 'dtype'");
  if (p.alpha) r.wrong(*v, key, "needs a picture without alpha: decode with 'alpha' drop or over");
}

Op resize(ObjectReader& r, const Value& in, Value& out) {
  Resize s;
  struct Way { std::string_view key; Resize::Fit fit; };
  static constexpr Way ways[] = {{"size", Resize::Fit::Exact},
                                 {"shorter", Resize::Fit::Shorter},
                                 {"longer", Resize::Fit::Longer},
                                 {"height", Resize::Fit::Height},
                                 {"width", Resize::Fit::Width}};
  const Json* given = nullptr;
  for (const Way& w : ways) {
    const Json* v = r.optional(w.key);
    if (!v) continue;
    if (given) r.wrong(*v, w.key, "is one too many: one of size, shorter, longer, height, width decides");
    given = v;
    s.fit = w.fit;
    if (s.fit == Resize::Fit::Exact)
      std::tie(s.height, s.width) = r.pair(v, w.key, 1, kMaxSide);
    else
      (s.fit == Resize::Fit::Height  ? s.height
       : s.fit == Resize::Fit::Width ? s.width
                                     : s.size) = r.integer(v, w.key, 1, kMaxSide);
  }
  if (!given) r.required("size");
  if (s.fit != Resize::Fit::Exact)
    s.round =
        r.choice<SizeRound>(r.required("round"), "round",
                            {{"trunc", SizeRound::Trunc}, {"nearest", SizeRound::Nearest}, {"ceil", SizeRound::Ceil}});
  else if (const Json* v = r.optional("round"))
    r.wrong(*v, "round", "has no meaning with 'size'");
  s.like = like_of(r);
  s.kernel = kernel_of(r, s.like);
  need_plain_bytes(r, given, "size", *in.picture);
  out.picture = in.picture;
  out.picture->height = s.fit == Resize::Fit::Exact || s.fit == Resize::Fit::Height ? s.height : -1;
  out.picture->width = s.fit == Resize::Fit::Exact || s.fit == Resize::Fit::Width ? s.width : -1;
  return s;
}

Op letterbox(ObjectReader& r, const Value& in, Value& out) {
  Letterbox s;
  const Json* size = r.required("size");
  std::tie(s.height, s.width) = r.pair(size, "size", 1, kMaxSide);
  s.upscale = r.boolean(r.required("upscale"), "upscale");
  s.like = like_of(r);
  s.kernel = kernel_of(r, s.like);
  const Json* value = r.required("value");
  s.value = r.numbers(value, "value", in.picture->channels);
  for (double v : s.value)
    if (v != static_cast<int64_t>(v) || v < 0 || v > 255) {
      r.wrong(*value, "value", "holds something that is not a whole number from 0 to 255");
      break;
    }
  need_plain_bytes(r, size, "size", *in.picture);
  out.picture = in.picture;
  out.picture->height = s.height;
  out.picture->width = s.width;
  return s;
}

Op crop(ObjectReader& r, const Value& in, Value& out) {
  Crop s;
  std::tie(s.height, s.width) = r.pair(r.required("size"), "size", 1, kMaxSide);
  const Json* at = r.required("at");
  s.centered = at && at->text() == "center";
  if (s.centered)
    s.round = r.choice<MarginRound>(
        r.required("round"), "round",
        {{"floor", MarginRound::Floor}, {"half-even", MarginRound::HalfEven}, {"half-up", MarginRound::HalfUp}});
  else if (at && !at->is(Json::Kind::Array))
    r.wrong(*at, "at", "is neither \"center\" nor [top, left]");
  else
    std::tie(s.top, s.left) = r.pair(at, "at", -kMaxSide, int64_t{1} << 28);
  if (const Json* v = s.centered ? nullptr : r.optional("round"))
    r.wrong(*v, "round", "has no meaning without \"at\": \"center\"");
  out.picture = in.picture;
  out.picture->height = s.height;
  out.picture->width = s.width;
  return s;
}

Op pad(ObjectReader& r, const Value& in, Value& out) {
  Pad s;
  s.mode = r.choice<PadMode>(r.required("mode"), "mode",
                             {{"constant", PadMode::Constant},
                              {"edge", PadMode::Edge},
                              {"reflect", PadMode::Reflect},
                              {"symmetric", PadMode::Symmetric}});
  if (s.mode == PadMode::Constant) {
    const Json* v = r.required("value");
    s.value = r.number(v, "value");
    if (v && in.picture->dtype == DType::U8 &&
        (s.value != static_cast<int64_t>(s.value) || s.value < 0 || s.value > 255))
      r.wrong(*v, "value", "is no byte, and the picture's elements are");
  } else if (const Json* v = r.optional("value")) {
    r.wrong(*v, "value", "has no meaning in this mode");
  }
  out.picture = in.picture;
  Picture& p = *out.picture;
  auto grow = [](int64_t& side, int64_t by) { side = side < 0 ? -1 : side + by; };
  if (const Json* v = r.optional("multiple")) {
    s.multiple = r.integer(v, "multiple", 1, kMaxSide);
    grow(p.height, (s.multiple - p.height % s.multiple) % s.multiple);
    grow(p.width, (s.multiple - p.width % s.multiple) % s.multiple);
    return s;
  }
  bool any = false;
  for (auto [key, side] : {std::pair<std::string_view, int64_t*>{"top", &s.top},
                           {"bottom", &s.bottom},
                           {"left", &s.left},
                           {"right", &s.right}})
    if (const Json* v = r.optional(key)) *side = r.integer(v, key, 0, kMaxSide), any = true;
  if (!any) r.required("multiple");
  grow(p.height, s.top + s.bottom);
  grow(p.width, s.left + s.right);
  return s;
}

Op flip(ObjectReader& r, const Value& in, Value& out) {
  out.picture = in.picture;
  return Flip{
      r.choice<Axis>(r.required("axis"), "axis", {{"horizontal", Axis::Horizontal}, {"vertical", Axis::Vertical}})};
}

// With "where" only pictures for which that is not 0: a half turn, which keeps the size.
Op rotate90(ObjectReader& r, const Value& in, Value& out) {
  const Json* turns = r.required("turns");
  Rotate90 s{static_cast<int>(r.integer(turns, "turns", 1, 3))};
  out.picture = in.picture;
  if (s.turns != 2) std::swap(out.picture->height, out.picture->width);
  if (s.turns != 2 && turns && r.has("where")) r.wrong(*turns, "turns", "is not 2, and 'where' needs a turn that keeps the size");
  return s;
}

Op color(ObjectReader& r, const Value& in, Value& out) {
  ConvertColor s;
  const Json* to = r.required("to");
  s.from = in.picture->color;
  s.to = color_of(r, to, "to");
  bool makes_gray = s.to == Color::Gray && s.from != Color::Gray;
  s.like = gray_formula(r, makes_gray);
  if (to && makes_gray && in.picture->dtype != DType::U8) r.wrong(*to, "to", "needs a picture of bytes to make grey");
  out.picture = in.picture;
  out.picture->color = s.to;
  out.picture->channels = (s.to == Color::Gray ? 1 : 3) + in.picture->alpha;
  return s;
}

// "norm": "l2" in place of the three operations.
Op normalize(ObjectReader& r, const Value& in, Value& out) {
  if (const Json* norm = r.optional("norm")) {
    r.choice<bool>(norm, "norm", {{"l2", true}});
    return UnitLength{};
  }
  Normalize s;
  int64_t channels = in.picture ? in.picture->channels : 1;
  auto floats = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
  const Json *div = r.optional("div"), *mean = r.optional("mean"), *std = r.optional("std");
  if (!div && !mean && !std) r.required("div");
  if (div) s.has_div = true, s.div = static_cast<float>(r.number(div, "div"));
  if (div && s.div == 0) r.wrong(*div, "div", "is 0");
  s.mean = floats(r.numbers(mean, "mean", channels));
  s.std = floats(r.numbers(std, "std", channels));
  if (std && std::count(s.std.begin(), s.std.end(), 0.0f)) r.wrong(*std, "std", "holds a 0");
  if (const Json* v = r.optional("exact")) s.exact = r.boolean(v, "exact");
  out.picture = in.picture;
  if (out.picture) out.picture->dtype = DType::F32;
  return s;
}

Op layout(ObjectReader& r, const Value& in, Value& out) {
  LayoutStep s;
  const Json* to = r.required("to");
  s.to = r.choice<PixelLayout>(
      to, "to",
      {{"NCHW", PixelLayout::Nchw}, {"NHWC", PixelLayout::Nhwc}, {"CHW", PixelLayout::Chw}, {"HWC", PixelLayout::Hwc}});
  if (!in.picture) {
    if (to) r.wrong(*to, "to", "needs a picture");
    return s;
  }
  s.from = in.picture->layout;
  auto batched = [](PixelLayout l) { return l == PixelLayout::Nchw || l == PixelLayout::Nhwc; };
  if (to && batched(s.from) && !batched(s.to)) r.wrong(*to, "to", "would drop the batch");
  out.picture = in.picture;
  out.picture->layout = s.to;
  return s;
}

Op cast(ObjectReader& r, const Value& in, Value& out) {
  Cast s{r.choice<DType>(r.required("to"), "to",
                         {{"f32", DType::F32},
                          {"f16", DType::F16},
                          {"bf16", DType::BF16},
                          {"f64", DType::F64},
                          {"u8", DType::U8},
                          {"i8", DType::I8},
                          {"i32", DType::I32},
                          {"i64", DType::I64}})};
  out.picture = in.picture;
  if (out.picture) out.picture->dtype = s.to;
  return s;
}

int64_t axis_of(ObjectReader& r) { return r.integer(r.required("axis"), "axis", -64, 63); }

Op softmax(ObjectReader& r, const Value&, Value&) { return Softmax{axis_of(r)}; }
Op sigmoid(ObjectReader&, const Value&, Value&) { return Sigmoid{}; }
Op argmax(ObjectReader& r, const Value&, Value&) { return Argmax{axis_of(r)}; }
Op threshold(ObjectReader& r, const Value&, Value&) {
  Threshold s;
  s.value = r.number(r.required("value"), "value");
  s.or_equal = r.choice<bool>(r.required("compare"), "compare", {{">", false}, {">=", true}});
  return s;
}

Op pool(ObjectReader& r, const Value&, Value&) {
  using How = Pool::How;
  return Pool{r.choice<How>(r.required("how"), "how", {{"mean", How::Mean}, {"mean_sqrt_len", How::MeanSqrtLen}, {"weightedmean", How::WeightedMean},
                                                        {"first", How::First}, {"last", How::Last}, {"max", How::Max}})};
}

Op join_windows(ObjectReader& r, const Value&, Value&) {
  return JoinWindows{r.choice<JoinWindows::How>(r.required("how"), "how", {{"mean", JoinWindows::How::Mean}, {"max", JoinWindows::How::Max}})};
}

Op truncate(ObjectReader& r, const Value&, Value&) { return Truncate{r.integer(r.required("columns"), "columns", 1, 1 << 20)}; }

Op new_axis(ObjectReader& r, const Value&, Value&) { return NewAxis{r.integer(r.required("at"), "at", 0, 63)}; }

Op transpose(ObjectReader& r, const Value&, Value&) {
  Transpose s;
  const Json* v = r.required("order");
  if (v && (!v->is(Json::Kind::Array) || v->size() == 0 || v->size() > 64)) {
    r.wrong(*v, "order", "is no list of 1 to 64 axes");
    return s;
  }
  if (!v) return s;
  for (const Json& one : v->items()) s.order.push_back(r.integer(&one, "order", 0, 63));
  std::vector<int64_t> sorted = s.order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t k = 0; k < sorted.size(); ++k)
    if (sorted[k] != static_cast<int64_t>(k)) {
      r.wrong(*v, "order", "does not name each axis from 0 to " + std::to_string(sorted.size() - 1) + " once");
      break;
    }
  return s;
}

Op column(ObjectReader& r, const Value&, Value&) { return Column{r.integer(r.required("index"), "index", 0, 1 << 24)}; }

Op run(ObjectReader& r, const Value&, Value&) {
  Run s;
  s.program = r.string(r.required("program"), "program");
  return s;
}

constexpr double kLeastTemperature = 0.001, kMostTemperature = 1000, kLeastShare = 1.0 / (1 << 20);

std::vector<int64_t> tokens_of(ObjectReader& r, const Json* v, std::string_view key) {
  std::vector<int64_t> tokens;
  if (v && (!v->is(Json::Kind::Array) || v->size() == 0 || v->size() > kMaxStarts)) r.wrong(*v, key, "is no list of 1 to " + std::to_string(kMaxStarts) + " tokens");
  else if (v)
    for (const Json& one : v->items()) tokens.push_back(r.integer(&one, key, 0, INT32_MAX));
  return tokens;
}

// {"past.*.key": "present.*.key"}
std::vector<std::pair<std::string, std::string>> carried_of(ObjectReader& r, std::string_view key) {
  std::vector<std::pair<std::string, std::string>> names;
  const Json* v = r.optional(key);
  if (v && (!v->is(Json::Kind::Object) || v->size() > kMaxCarried)) r.wrong(*v, key, "is no object {input: output}, of at most " + std::to_string(kMaxCarried));
  else if (v)
    for (const auto& [input, output] : v->members()) {
      const auto stars = [](std::string_view text) { return std::count(text.begin(), text.end(), '*'); };
      if (output.text().empty() || stars(input.text()) != stars(output.text())) r.wrong(output, key, "has an input and an output that are no pair of names, or of patterns with equally many '*'");
      names.emplace_back(input.text(), output.text());
    }
  return names;
}

// "sample": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 7 or the name of a value}
void read_sample(ObjectReader& r, Generate& s) {
  const Json* v = r.optional("sample");
  if (!v) return;
  if (!v->is(Json::Kind::Object)) return r.wrong(*v, "sample", "is not {\"temperature\", \"top_k\", \"top_p\", \"seed\"}");
  ObjectReader one(*v, "'sample' of generate", r.problems());
  Generate::Sampling& sampling = *(s.sampling = Generate::Sampling());
  const Json* temperature = one.required("temperature");
  sampling.temperature = one.number(temperature, "temperature");
  if (temperature && !(sampling.temperature >= kLeastTemperature && sampling.temperature <= kMostTemperature))
    one.wrong(*temperature, "temperature", "is not between 0.001 and 1000; without 'sample' the greatest logit is taken");
  if (const Json* top_k = one.optional("top_k")) sampling.top_k = one.integer(top_k, "top_k", 1, 1 << 20);
  if (const Json* top_p = one.optional("top_p")) {
    sampling.top_p = one.number(top_p, "top_p");
    if (!(sampling.top_p >= kLeastShare && sampling.top_p <= 1)) one.wrong(*top_p, "top_p", "is not between 2^-20 and 1");
  }
  const Json* seed = one.required("seed");
  if (seed && seed->is(Json::Kind::String)) sampling.has_seed_input = true;  // read with the step's other values
  else sampling.seed = one.integer(seed, "seed", INT64_MIN, INT64_MAX);
  one.finish();
}

Op generate(ObjectReader& r, const Value&, Value&) {
  Generate s;
  s.program = r.string(r.required("program"), "program");
  s.tokens = r.string(r.required("tokens"), "tokens");
  s.logits = r.string(r.required("logits"), "logits");
  s.start = tokens_of(r, r.optional("start"), "start");
  s.end = tokens_of(r, r.required("end"), "end");
  s.most = r.integer(r.required("max"), "max", 2, kMaxGenerated);
  read_sample(r, s);
  s.carry = carried_of(r, "carry");
  s.once = carried_of(r, "once");
  for (const auto& [key, name] : {std::pair{"again", &s.again}, {"mask", &s.mask}, {"positions", &s.positions}})
    if (const Json* v = r.optional(key)) *name = r.string(v, key);
  return s;
}

// "below" and "label"; those that are not written are as in `rest`, null where both must be.
TopK::Unsure read_unsure_one(ObjectReader& one, const TopK::Unsure* rest) {
  TopK::Unsure s = rest ? *rest : TopK::Unsure{};
  const Json* below = rest ? one.optional("below") : one.required("below");
  const Json* label = rest ? one.optional("label") : one.required("label");
  if (below) s.below = one.number(below, "below");
  if (label) s.label = one.string(label, "label");
  if (label && std::any_of(s.label.begin(), s.label.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
    one.wrong(*label, "label", "has control characters");
  return s;
}

// "unsure": {"below": 0.5, "label": "unknown", "others": {"html": {"below": 0.9, "label": "txt"}}}
void read_unsure(ObjectReader& r, TopK& s) {
  const Json* v = r.optional("unsure");
  if (!v) return;
  if (!v->is(Json::Kind::Object)) return r.wrong(*v, "unsure", "is not {\"below\", \"label\", \"others\"}");
  if (s.labels.empty()) r.wrong(*v, "unsure", "has no meaning without 'labels'");
  ObjectReader all(*v, "'unsure' of top_k", r.problems());
  s.unsure = read_unsure_one(all, nullptr);
  const Json* others = all.optional("others");
  if (others && (!others->is(Json::Kind::Object) || others->size() > kMaxUnsure))
    all.wrong(*others, "others", "is no object of at most " + std::to_string(kMaxUnsure) + " labels");
  else if (others)
    for (const auto& [key, value] : others->members()) {
      if (!value.is(Json::Kind::Object)) {
        all.wrong(value, "others", "has '" + std::string(key.text()) + "', which is not {\"below\", \"label\"}");
        continue;
      }
      ObjectReader one(value, "'others' of unsure", r.problems());
      s.others.emplace(key.text(), read_unsure_one(one, &*s.unsure));
      one.finish();
    }
  all.finish();
}

Op top_k(ObjectReader& r, const Value&, Value& out) {
  TopK s;
  s.k = r.integer(r.required("k"), "k", 1, 1 << 20);
  read_labels(r, s.labels, s.label_offset);
  read_unsure(r, s);
  out.kind = ValueKind::Classes;
  return s;
}

Op ctc_greedy(ObjectReader& r, const Value&, Value& out) {
  CtcGreedy s;
  s.blank = r.integer(r.required("blank"), "blank", 0, 1 << 24);
  s.charset = r.string(r.required("charset"), "charset");
  s.final_space = r.boolean(r.required("final_space"), "final_space");
  out.kind = ValueKind::Text;
  return s;
}

Op detokenize(ObjectReader& r, const Value&, Value& out) {
  Detokenize s;
  s.tokenizer = r.string(r.required("tokenizer"), "tokenizer");
  s.skip_special = r.boolean(r.required("skip_special"), "skip_special");
  out.kind = ValueKind::Text;
  return s;
}

Op text_boxes(ObjectReader& r, const Value&, Value&) {
  TextBoxes s;
  const auto number = [&](const char* key, double most) {
    const Json* v = r.required(key);
    const double n = r.number(v, key);
    if (v && !(n >= 0 && n <= most)) r.wrong(*v, key, "is not between 0 and " + std::to_string(static_cast<int64_t>(most)));
    return n;
  };
  s.threshold = number("threshold", 1);
  s.box_threshold = number("box_threshold", 1);
  s.unclip_ratio = number("unclip_ratio", kMaxUnclipRatio);
  s.min_side = number("min_side", kMaxSide);
  s.max_candidates = r.integer(r.required("max_candidates"), "max_candidates", 1, kMaxTextBoxes);
  return s;
}

// Boxes, or the corners of quadrangles.
Op cut(ObjectReader& r, const Value& in, Value& out) {
  out.kind = ValueKind::List;
  out.picture = in.picture;
  out.picture->height = out.picture->width = -1;
  Cut s;
  s.has_corners = r.has("corners");
  if (!s.has_corners) {
    r.required("boxes");
    for (const char* key : {"like", "upright"})
      if (const Json* v = r.optional(key)) r.wrong(*v, key, "has no meaning beside 'boxes', whose pixels are copied");
    return s;
  }
  if (const Json* boxes = r.optional("boxes")) r.wrong(*boxes, "boxes", "stands beside 'corners'; a step cuts along one of them");
  r.choice<Like>(r.required("like"), "like", {{"opencv", Like::OpenCv}});
  s.upright = r.boolean(r.required("upright"), "upright");
  return s;
}

Op for_each(ObjectReader&, const Value&, Value&) { return ForEach{}; }

Op batch(ObjectReader& r, const Value& in, Value& out) {
  Batch s{r.integer(r.required("max"), "max", 1, kMaxBatch)};
  out.picture = in.picture;
  if (out.picture) out.picture->most = s.most;
  return s;
}

constexpr StepKind kKinds[] = {
    {"decode_image", InputForm::Media, decode_image},
    {"decode_audio", InputForm::Media, decode_audio},
    {"file_bytes", InputForm::Bytes, file_bytes},
    {"tokenize", InputForm::Texts, tokenize},
    {"resize", InputForm::Picture, resize},
    {"letterbox", InputForm::Picture, letterbox},
    {"crop", InputForm::Picture, crop},
    {"pad", InputForm::Picture, pad},
    {"flip", InputForm::Picture, flip},
    {"rotate90", InputForm::Picture, rotate90, {{{"where", false}}}},
    {"color", InputForm::Picture, color},
    {"normalize", InputForm::Tensor, normalize},
    {"layout", InputForm::Tensor, layout},
    {"dtype", InputForm::Tensor, cast},
    {"softmax", InputForm::Tensor, softmax},
    {"sigmoid", InputForm::Tensor, sigmoid},
    {"argmax", InputForm::Tensor, argmax},
    {"threshold", InputForm::Tensor, threshold},
    {"pool", InputForm::Tensor, pool, {{{"mask", true}}}},
    {"truncate", InputForm::Tensor, truncate},
    {"boxes", InputForm::Boxes, parse_boxes},
    {"nms", InputForm::Boxes, parse_nms},
    {"unletterbox", InputForm::Tensor, parse_unletterbox},
    {"keypoints", InputForm::Tensor, parse_keypoints},
    {"masks", InputForm::Tensor, parse_masks, {{{"boxes", true}, {"prototypes", true}}}},
    {"paint", InputForm::Tensor, parse_paint},
    {"column", InputForm::Tensor, column},
    {"new_axis", InputForm::Tensor, new_axis},
    {"transpose", InputForm::Tensor, transpose},
    {"constant", InputForm::None, parse_constant},
    {"fit", InputForm::Tensor, sound::fit},
    {"resample", InputForm::Tensor, sound::resample},
    {"frame", InputForm::Tensor, sound::frame},
    {"window", InputForm::Tensor, sound::window},
    {"pre_emphasis", InputForm::Tensor, sound::pre_emphasis},
    {"stft", InputForm::Tensor, sound::stft},
    {"istft", InputForm::Tensor, sound::istft, {{{"mask", false}}}},
    {"overlap_add", InputForm::Tensor, sound::overlap_add, {{{"length_of", false}, {"before", false}}}, {"sound", "rest"}},
    {"mel", InputForm::Tensor, sound::mel},
    {"log", InputForm::Tensor, sound::log},
    {"mean_var", InputForm::Tensor, sound::mean_var},
    {"log_mel", InputForm::Preset, nullptr},
    {"run", InputForm::Named, run},
    {"generate", InputForm::Fed, generate},
    {"top_k", InputForm::Tensor, top_k},
    {"ctc_greedy", InputForm::Tensor, ctc_greedy},
    {"detokenize", InputForm::Tensor, detokenize},
    {"text_boxes", InputForm::Tensor, text_boxes, {{{"picture", true, InputForm::Picture}, {"resized", false, InputForm::Picture}}}, {"corners", "scores"}},
    {"detections", InputForm::Tensor, parse_detections},
    {"draw", InputForm::Picture, parse_draw, {{{"boxes", true, InputForm::Found}}}},
    {"image_out", InputForm::Picture, parse_image_out},
    {"wav_out", InputForm::Tensor, sound::wav_out},
    {"cut", InputForm::Picture, cut, {{{"boxes", false}, {"corners", false}}}},
    {"for_each", InputForm::Items, for_each},
    {"batch", InputForm::Tensor, batch},
    {"join_windows", InputForm::Tensor, join_windows, {{{"of", true}}}},
};

constexpr std::string_view kPlanned[] = {
    "clip", "quantize"};

}  // namespace

std::optional<std::array<uint8_t, 3>> parse_color(std::string_view text) {
  if (text.size() != 7 || text[0] != '#') return std::nullopt;
  std::array<uint8_t, 3> rgb = {};
  for (size_t i = 0; i < 6; ++i) {
    char c = text[i + 1];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return std::nullopt;
    rgb[i / 2] = static_cast<uint8_t>(rgb[i / 2] * 16 + digit);
  }
  return rgb;
}

void read_labels(ObjectReader& r, std::string& labels, int64_t& offset) {
  if (const Json* v = r.optional("labels")) labels = r.string(v, "labels");
  const Json* v = r.optional("label_offset");
  if (!v) return;
  offset = r.integer(v, "label_offset", -(1 << 20), 1 << 20);
  if (labels.empty()) r.wrong(*v, "label_offset", "has no meaning without 'labels'");
}

const StepKind* step_kind(std::string_view op) {
  for (const StepKind& k : kKinds)
    if (k.op == op) return &k;
  return nullptr;
}

std::vector<std::string_view> step_names() {
  std::vector<std::string_view> names;
  for (const StepKind& k : kKinds) names.push_back(k.op);
  return names;
}

bool is_planned_step(std::string_view op) {
  return std::find(std::begin(kPlanned), std::end(kPlanned), op) != std::end(kPlanned);
}

}  // namespace mlc::pipeline
