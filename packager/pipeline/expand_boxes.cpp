// Heads of detectors: boxes, masks, points, and what puts them back onto the picture.
#include "base/counted.h"
#include "packager/pipeline/section_expander.h"
#include "schema/pipeline/geometry.h"

namespace mlc::pipeline {

Status SectionExpander::need(size_t k, const Wanted& wanted) const {
  const nest::Array& array = function_.arrays[values_.at(step_->in.at(k)).array];
  const bool is_typed = wanted.rank == 2 ? array.dtype == DType::F32 : is_float(array.dtype);
  if (is_typed && array.shape.size() == wanted.rank) {
    const ir::Expr* extent = array.shape[wanted.axis];
    if (!extent->is_const() || (extent->i >= wanted.least && extent->i <= wanted.most)) return ok();
  }
  std::string found = std::string(name_of(array.dtype)) + "[";
  for (size_t axis = 0; axis < array.shape.size(); ++axis) found += (axis ? ", " : "") + ir::to_string(array.shape[axis]);
  return Status(Code::Usage, 5009, "step '{}' takes {}, '{}' is {}]", step_->op, wanted.what, pipeline_.value(step_->in[k]).name, found);
}

// As many rows as the levels make, where that is known before the run.
Status SectionExpander::need_places(const Boxes& s) const {
  for (const ValueId id : step_->in)
    if (const ir::Expr* rows = function_.arrays[values_.at(id).array].shape[1]; rows->is_const() && rows->i != anchor_count(s))
      return Status(Code::Usage, 5009, "the cells of step 'boxes' make {}, '{}' has {}", counted(static_cast<size_t>(anchor_count(s)), "box", "boxes"),
                    pipeline_.value(id).name, rows->i)
          .hint("'size' is the picture that the network saw; a level has ceil(side / stride) cells along each side");
  return ok();
}

Status SectionExpander::expand(const Boxes& s) {
  const bool is_one = step_->in.size() == 1;
  const char* name = "";
  Attributes attributes;
  switch (s.form) {
    case Boxes::Form::Yolo:
      name = "BoxesYolo";
      attributes = {{"extra", s.extra}};
      MLC_RETURN_IF_ERROR(need(0, {3, 2, 6 + s.extra, INT64_MAX, s.extra > 0 ? "floats [1, boxes, 5, as many as there are classes, and 'extra']" : kRows}));
      break;
    case Boxes::Form::Yolo8:
      name = "BoxesYolo8";
      attributes = {{"extra", s.extra}};
      MLC_RETURN_IF_ERROR(need(0, {3, 1, 5 + s.extra, INT64_MAX, s.extra > 0 ? "floats [1, 4, as many as there are classes, and 'extra', boxes]"
                                                                              : "floats [1, 4 and as many as there are classes, boxes]"}));
      break;
    case Boxes::Form::Ssd:
      name = "BoxesSsd";
      attributes = {{"height", s.height}, {"width", s.width}, {"background", s.background}};
      MLC_RETURN_IF_ERROR(need(0, {3, 2, 4, 4, "boxes as floats [1, boxes, 4]"}));
      MLC_RETURN_IF_ERROR(need(1, {3, 2, s.background + 1, INT64_MAX, kMarks}));
      break;
    case Boxes::Form::Anchors:
      name = is_one ? "BoxesAnchorsRows" : "BoxesAnchors";
      attributes = {{"near", s.variance[0]}, {"far", s.variance[1]}};
      if (is_one) MLC_RETURN_IF_ERROR(need(0, {3, 2, 6, INT64_MAX, kRows}));
      else MLC_RETURN_IF_ERROR(need(0, {3, 2, 4, 4, "boxes as floats [1, boxes, 4]"}));
      if (!is_one) attributes["background"] = s.background;
      if (!is_one) MLC_RETURN_IF_ERROR(need(1, {3, 2, s.background + 1, INT64_MAX, kMarks}));
      MLC_RETURN_IF_ERROR(need_places(s));
      break;
    case Boxes::Form::Dfl:
      name = is_one ? "BoxesDflRows" : "BoxesDfl";
      attributes = {{"bins", s.bins}};
      if (is_one) MLC_RETURN_IF_ERROR(need(0, {3, 2, 4 * s.bins + 1, INT64_MAX, "floats [1, boxes, classes and 4 times 'bins']"}));
      else MLC_RETURN_IF_ERROR(need(0, {3, 2, 4 * s.bins, 4 * s.bins, "boxes as floats [1, boxes, 4 times 'bins']"}));
      if (!is_one) MLC_RETURN_IF_ERROR(need(1, {3, 2, 1, INT64_MAX, kMarks}));
      MLC_RETURN_IF_ERROR(need_places(s));
      break;
  }
  lang::Call call = call_of(name, std::move(attributes), "mlc.pipeline");
  for (const ValueId id : step_->in) call.inputs.emplace_back(values_.at(id));
  if (!s.levels.empty()) {
    const std::vector<float> places = anchor_table(s);
    call.inputs.emplace_back(constant(DType::F32, places, {static_cast<int64_t>(places.size() / 4), 4}));
  }
  call.outputs = {true, true};
  if (s.form == Boxes::Form::Yolo || s.form == Boxes::Form::Yolo8) call.outputs.push_back(s.extra > 0);
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  for (size_t k = 0; k < step_->out.size(); ++k) values_[step_->out[k]] = std::move(out[k]);
  return ok();
}

Status SectionExpander::expand(const Nms& s) {
  MLC_RETURN_IF_ERROR(need(0, {2, 1, 4, 4, "boxes f32 [boxes, 4]"}));
  MLC_RETURN_IF_ERROR(need(1, {2, 1, 0, INT64_MAX, "scores f32 [boxes, classes]"}));
  classes_[step_->out[0]] = extent_of(function_.arrays[values_.at(step_->in[1]).array].shape[1]);
  const std::string per = s.per_class ? "class" : "all";
  Attributes attributes{{"least", s.score}, {"iou", s.iou}, {"most", s.most}, {"per", per}};
  const bool is_hard = s.decay == Nms::Decay::Hard;
  if (!is_hard) attributes.merge(Attributes{{"sigma", s.sigma}, {"decay", std::string(s.decay == Nms::Decay::Linear ? "linear" : "gaussian")}});
  lang::Call call = call_of(is_hard ? "Nms" : "SoftNms", std::move(attributes), "mlc.pipeline");
  call.inputs = {in(), values_.at(step_->in.at(1))};
  const bool has_extra = step_->in.size() > 2;
  if (has_extra) MLC_RETURN_IF_ERROR(need(2, {2, 1, 0, INT64_MAX, "'extra' f32 [boxes, numbers]"}));
  call.outputs = {true, has_extra};
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  if (has_extra) {
    lang::Call rows = call_of("RowsAt", {}, "mlc.pipeline");
    rows.inputs = {values_.at(step_->in[2]), out[1]};
    MLC_ASSIGN(std::vector<lang::Value> extra, library_.expand(ctx_, function_, rows));
    values_[step_->out.at(1)] = std::move(extra[0]);
  }
  return set(std::move(out[0]));
}

Status SectionExpander::expand(const Keypoints& s) {
  MLC_RETURN_IF_ERROR(need(0, {2, 1, s.columns, INT64_MAX, "points f32 [n, points times 'columns']"}));
  Attributes attributes{{"clip", flag(s.clip)}, {"columns", s.columns}};
  attributes.merge(fitted(s.of));
  return set(apply_two("Keypoints", in(), values_.at(step_->in.at(1)), "mlc.pipeline", std::move(attributes)));
}

Status SectionExpander::expand(const Masks& s) {
  MLC_RETURN_IF_ERROR(need(0, {2, 1, 1, INT64_MAX, "coefficients f32 [n, prototypes]"}));
  MLC_RETURN_IF_ERROR(need(1, {2, 1, 6, 6, "detections f32 [n, 6]"}));
  MLC_RETURN_IF_ERROR(need(2, {4, 0, 1, 1, "prototypes as floats [1, prototypes, height, width]"}));
  lang::Call call = call_of("Masks", fitted(s.of), "mlc.pipeline");
  for (const ValueId id : step_->in) call.inputs.emplace_back(values_.at(id));
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return set(std::move(out[0]));
}

Status SectionExpander::expand(const Paint& s) {
  lang::Value classes = in();
  const nest::Array& array = function_.arrays[classes.array];
  const bool has_batch = array.shape.size() == 3 && array.shape[0]->is_const() && array.shape[0]->i == 1;
  if (array.dtype != DType::I64 || (array.shape.size() != 2 && !has_batch))
    return Status(Code::Usage, 5009, "step 'paint' takes classes i64 [h, w] or [1, h, w], '{}' is {} with {} axes", pipeline_.value(step_->in[0]).name,
                  name_of(array.dtype), array.shape.size())
        .hint("argmax makes them of scores [1, classes, h, w] with \"axis\": 1");
  if (has_batch) {
    MLC_ASSIGN(classes, apply_two("Squeeze", classes, axes_of({0}), "ai.onnx"));
  }
  std::vector<uint8_t> colours;
  for (const auto& colour : s.palette) colours.insert(colours.end(), colour.begin(), colour.end());
  lang::Call call = call_of("Paint", fitted(s.of), "mlc.pipeline");
  call.inputs = {classes, values_.at(step_->in.at(1)), constant(DType::U8, colours, {static_cast<int64_t>(s.palette.size()), 3})};
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return set(std::move(out[0]));
}

Status SectionExpander::expand(const Unletterbox& s) {
  MLC_RETURN_IF_ERROR(need(0, {2, 1, 6, 6, "detections f32 [n, 6]"}));
  classes_[step_->out[0]] = classes_of(step_->in[0]);
  Attributes attributes{{"clip", flag(s.clip)}};
  attributes.merge(fitted(s.of));
  lang::Call call = call_of("Unletterbox", std::move(attributes), "mlc.pipeline");
  call.inputs = {in(), values_.at(step_->in.at(1))};
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return set(std::move(out[0]));
}

}  // namespace mlc::pipeline
