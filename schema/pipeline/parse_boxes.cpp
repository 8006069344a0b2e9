// Steps on what detectors give.
#include <tuple>

#include "schema/pipeline/parse_step.h"

namespace mlc::pipeline {
namespace {

constexpr int64_t kMostBoxes = 1 << 20, kMostColumns = 1 << 20;

}  // namespace

Op parse_boxes(ObjectReader& r, const Value&, Value&) {
  Boxes s;
  using Form = Boxes::Form;
  s.form = r.choice<Form>(r.required("form"), "form", {{"yolo", Form::Yolo}, {"yolo8", Form::Yolo8}, {"ssd", Form::Ssd}});
  if (s.form == Form::Ssd) {
    std::tie(s.height, s.width) = r.pair(r.required("size"), "size", 1, kMaxSide);
    if (const Json* v = r.optional("background")) s.background = r.integer(v, "background", 0, kMostColumns);
    return s;
  }
  for (const char* key : {"size", "background"})
    if (const Json* v = r.optional(key)) r.wrong(*v, key, "has no meaning without \"form\": \"ssd\"");
  return s;
}

Op parse_nms(ObjectReader& r, const Value&, Value&) {
  Nms s;
  s.score = r.number(r.required("score"), "score");
  const Json* iou = r.required("iou");
  s.iou = r.number(iou, "iou");
  if (iou && !(s.iou >= 0 && s.iou <= 1)) r.wrong(*iou, "iou", "is no number from 0 to 1");
  s.per_class = r.choice<bool>(r.required("per"), "per", {{"class", true}, {"all", false}});
  s.most = r.integer(r.required("max"), "max", 1, kMostBoxes);
  return s;
}

Op parse_unletterbox(ObjectReader& r, const Value&, Value&) {
  Unletterbox s;
  s.clip = r.boolean(r.required("clip"), "clip");
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
