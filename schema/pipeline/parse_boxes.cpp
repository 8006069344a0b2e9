// Steps on what detectors give.
#include <algorithm>
#include <array>
#include <tuple>

#include "schema/pipeline/geometry.h"
#include "schema/pipeline/parse_step.h"

namespace mlc::pipeline {
namespace {

constexpr int64_t kMostBoxes = 1 << 20, kMostColumns = 1 << 20;
constexpr int64_t kMostBins = 1024;
constexpr size_t kMostLevels = 16, kMostAnchors = 256, kMostColours = 4096;

using Form = Boxes::Form;

// A list of 1 to `most`; null where it is none, which is said.
const Json* list_of(ObjectReader& r, std::string_view key, size_t most) {
  const Json* v = r.required(key);
  if (!v || (v->is(Json::Kind::Array) && v->size() > 0 && v->size() <= most)) return v;
  r.wrong(*v, key, "is no list of 1 to " + std::to_string(most));
  return nullptr;
}

// [height, width], or one number for a square.
std::array<double, 2> read_anchor(ObjectReader& r, const Json& v) {
  if (v.is(Json::Kind::Array) && v.size() != 2) {
    r.wrong(v, "anchors", "holds a list that is not [height, width]");
    return {1, 1};
  }
  const std::vector<double> sides = r.numbers(&v, "anchors", 2);
  for (const double side : sides)
    if (!(side > 0 && side <= kMaxSide)) {
      r.wrong(v, "anchors", "has a side that is not above 0 and at most " + std::to_string(kMaxSide));
      return {1, 1};
    }
  return {sides[0], sides[1]};
}

// Where the boxes of a head are: "levels" with anchors, or "strides".
void read_places(ObjectReader& r, Boxes& s) {
  std::tie(s.height, s.width) = r.pair(r.required("size"), "size", 1, kMaxSide);
  const Json* offset = r.required("offset");
  s.offset = r.number(offset, "offset");
  if (offset && !(s.offset >= 0 && s.offset <= 1)) r.wrong(*offset, "offset", "is no number from 0 to 1");
  const bool is_dfl = s.form == Form::Dfl;
  const char* key = is_dfl ? "strides" : "levels";
  const Json* all = list_of(r, key, kMostLevels);
  if (!all) return;
  for (const Json& one : all->items()) {
    if (is_dfl) {
      s.levels.push_back({r.integer(&one, key, 1, kMaxSide), {}});
      continue;
    }
    if (!one.is(Json::Kind::Object)) {
      r.wrong(one, key, "holds something that is not {\"stride\", \"anchors\"}");
      continue;
    }
    ObjectReader level(one, "'levels'", r.problems());
    Boxes::Level read{level.integer(level.required("stride"), "stride", 1, kMaxSide), {}};
    if (const Json* anchors = list_of(level, "anchors", kMostAnchors))
      for (const Json& anchor : anchors->items()) read.anchors.push_back(read_anchor(level, anchor));
    level.finish();
    s.levels.push_back(std::move(read));
  }
  if (const int64_t count = anchor_count(s); count > kMostBoxes)
    r.wrong(*all, key, "makes " + std::to_string(count) + " boxes, at most " + std::to_string(kMostBoxes));
}

void read_background(ObjectReader& r, Boxes& s) {
  if (const Json* v = r.optional("background")) s.background = r.integer(v, "background", 0, kMostColumns);
}

}  // namespace

Op parse_boxes(ObjectReader& r, const Value&, Value&) {
  Boxes s;
  const Json *form = r.required("form"), *in = r.optional("in");
  s.form = r.choice<Form>(form, "form", {{"yolo", Form::Yolo}, {"yolo8", Form::Yolo8}, {"ssd", Form::Ssd}, {"anchors", Form::Anchors}, {"dfl", Form::Dfl}});
  const bool has_background = s.form == Form::Ssd || (s.form == Form::Anchors && in && in->is(Json::Kind::Object));
  if (s.form == Form::Ssd) std::tie(s.height, s.width) = r.pair(r.required("size"), "size", 1, kMaxSide);
  if (s.form == Form::Anchors || s.form == Form::Dfl) read_places(r, s);
  if (has_background) read_background(r, s);
  if (const Json* v = s.form == Form::Yolo || s.form == Form::Yolo8 ? r.optional("extra") : nullptr) s.extra = r.integer(v, "extra", 1, kMostColumns);
  if (s.form == Form::Dfl) s.bins = r.integer(r.required("bins"), "bins", 2, kMostBins);
  if (s.form == Form::Anchors) {
    const Json* variance = list_of(r, "variance", 2);
    if (variance && variance->size() == 1) r.wrong(*variance, "variance", "is no list of two numbers, that of centres first");
    else if (variance) std::copy_n(r.numbers(variance, "variance", 2).begin(), 2, std::begin(s.variance));
  }
  const bool is_anchors = s.form == Form::Anchors, is_dfl = s.form == Form::Dfl, is_placed = is_anchors || is_dfl;
  for (const auto& [key, has_it] : {std::pair{"size", is_placed || s.form == Form::Ssd}, {"background", has_background}, {"levels", is_anchors},
                                    {"strides", is_dfl}, {"offset", is_placed}, {"variance", is_anchors}, {"bins", is_dfl},
                                    {"extra", s.form == Form::Yolo || s.form == Form::Yolo8}})
    if (const Json* v = has_it ? nullptr : r.optional(key); v && form)
      r.wrong(*v, key, "has no meaning with \"form\": \"" + std::string(form->text()) + "\"" + (is_anchors ? " and one array" : ""));
  return s;
}

Op parse_nms(ObjectReader& r, const Value&, Value&) {
  Nms s;
  s.score = r.number(r.required("score"), "score");
  if (const Json* v = r.optional("like")) {
    r.choice<bool>(v, "like", {{"soft", true}});
    s.decay = r.choice<Nms::Decay>(r.required("decay"), "decay", {{"linear", Nms::Decay::Linear}, {"gaussian", Nms::Decay::Gaussian}});
    if (s.score < 0) r.wrong(*v, "like", "needs a 'score' of at least 0: scores only become less");
  } else if (const Json* decay = r.optional("decay")) {
    r.wrong(*decay, "decay", "has no meaning without \"like\": \"soft\"");
  }
  const bool is_gaussian = s.decay == Nms::Decay::Gaussian;
  const Json* iou = is_gaussian ? r.optional("iou") : r.required("iou");
  if (is_gaussian && iou) r.wrong(*iou, "iou", "has no meaning beside \"decay\": \"gaussian\", which every overlap takes from");
  else s.iou = r.number(iou, "iou");
  if (iou && !(s.iou >= 0 && s.iou <= 1)) r.wrong(*iou, "iou", "is no number from 0 to 1");
  const Json* sigma = is_gaussian ? r.required("sigma") : r.optional("sigma");
  if (sigma && !is_gaussian) r.wrong(*sigma, "sigma", "has no meaning without \"decay\": \"gaussian\"");
  else if (is_gaussian) s.sigma = r.number(sigma, "sigma");
  if (is_gaussian && sigma && !(static_cast<float>(s.sigma) > 0)) r.wrong(*sigma, "sigma", "is not above 0");
  s.per_class = r.choice<bool>(r.required("per"), "per", {{"class", true}, {"all", false}});
  s.most = r.integer(r.required("max"), "max", 1, kMostBoxes);
  return s;
}

Op parse_unletterbox(ObjectReader& r, const Value&, Value&) {
  Unletterbox s;
  s.clip = r.boolean(r.required("clip"), "clip");
  return s;
}

Op parse_keypoints(ObjectReader& r, const Value&, Value&) {
  Keypoints s;
  s.columns = r.integer(r.required("columns"), "columns", 2, 16);
  s.clip = r.boolean(r.required("clip"), "clip");
  return s;
}

Op parse_masks(ObjectReader&, const Value&, Value&) { return Masks{}; }

Op parse_paint(ObjectReader& r, const Value&, Value& out) {
  Paint s;
  if (const Json* palette = list_of(r, "palette", kMostColours))
    for (const Json& colour : palette->items()) {
      const auto rgb = parse_color(colour.text());
      if (rgb) s.palette.push_back(*rgb);
      else r.wrong(colour, "palette", "holds something that is not \"#rrggbb\"");
    }
  out.picture = Picture{};
  return s;
}

Op parse_detections(ObjectReader& r, const Value&, Value& out) {
  NameBoxes s;
  read_labels(r, s.labels, s.label_offset);
  out.kind = ValueKind::Boxes;
  return s;
}

Op parse_draw(ObjectReader& r, const Value& in, Value& out) {
  const Json* v = r.optional("in");
  const bool is_fit = in.picture->dtype == DType::U8 && in.picture->color == Color::Rgb && !in.picture->alpha;
  if (!is_fit && v) r.wrong(*v, "in", "is no picture of bytes in rgb without alpha: decode the file once more with \"color\": \"rgb\"");
  else if (!is_fit) r.required("in");
  out.picture = in.picture;
  return Draw{};
}

Op parse_image_out(ObjectReader& r, const Value& in, Value& out) {
  r.choice<bool>(r.required("type"), "type", {{"image/png", true}});
  const Json* v = r.optional("in");
  const bool is_fit = in.picture->dtype == DType::U8 && in.picture->color != Color::Bgr;
  if (!is_fit && v) r.wrong(*v, "in", "is no picture of bytes in rgb or gray: 'dtype' and 'color' make one");
  else if (!is_fit) r.required("in");
  out.kind = ValueKind::Image;
  return ImageOut{};
}

}  // namespace mlc::pipeline
