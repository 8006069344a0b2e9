// Pictures: sizes, margins, colours, layouts.
#include "base/counted.h"
#include "packager/pipeline/section_expander.h"

namespace mlc::pipeline {
namespace {

std::string kernel_name(Kernel kernel) {
  switch (kernel) {
    case Kernel::Nearest: return "nearest";
    case Kernel::Box: return "box";
    case Kernel::Bilinear: return "bilinear";
    case Kernel::Hamming: return "hamming";
    case Kernel::Bicubic: return "bicubic";
    case Kernel::Lanczos: return "lanczos";
    case Kernel::Linear: return "linear";
  }
  return {};
}

std::string fit_name(Resize::Fit fit) {
  switch (fit) {
    case Resize::Fit::Exact: return "exact";
    case Resize::Fit::Shorter: return "shorter";
    case Resize::Fit::Longer: return "longer";
    case Resize::Fit::Height: return "height";
    case Resize::Fit::Width: return "width";
  }
  return {};
}

std::string round_name(SizeRound round) {
  switch (round) {
    case SizeRound::Trunc: return "trunc";
    case SizeRound::Nearest: return "nearest";
    case SizeRound::Ceil: return "ceil";
  }
  return {};
}

std::string round_name(MarginRound round) {
  switch (round) {
    case MarginRound::Floor: return "floor";
    case MarginRound::HalfEven: return "half_even";
    case MarginRound::HalfUp: return "half_up";
  }
  return {};
}

std::string mode_name(PadMode mode) {
  switch (mode) {
    case PadMode::Constant: return "constant";
    case PadMode::Edge: return "edge";
    case PadMode::Reflect: return "reflect";
    case PadMode::Symmetric: return "symmetric";
  }
  return {};
}

std::string resize_operator(Like like) { return like == Like::Pillow ? "ResizePillow" : "ResizeOpencv"; }

}  // namespace

const Picture* SectionExpander::picture() const {
  const auto& known = pipeline_.value(step_->in.at(0)).picture;
  return known ? &*known : nullptr;
}

Status SectionExpander::expand(const Resize& s) {
  return set(apply(resize_operator(s.like), in(), {{"fit", fit_name(s.fit)}, {"height", s.height}, {"width", s.width}, {"size", s.size},
                                                   {"round", round_name(s.round)}, {"kernel", kernel_name(s.kernel)}}));
}

Status SectionExpander::expand(const Letterbox& s) {
  MLC_ASSIGN(const lang::Value inner, apply(resize_operator(s.like), in(), {{"fit", std::string(s.upscale ? "grown" : "inside")}, {"height", s.height},
                                                                            {"width", s.width}, {"kernel", kernel_name(s.kernel)}}));
  return set(apply("Centered", inner, {{"height", s.height}, {"width", s.width}, {"value", s.value}}));
}

Status SectionExpander::expand(const Crop& s) {
  if (s.centered) return set(apply("CropCenter", in(), {{"height", s.height}, {"width", s.width}, {"round", round_name(s.round)}}));
  return set(apply("Crop", in(), {{"top", s.top}, {"left", s.left}, {"height", s.height}, {"width", s.width}}));
}

Status SectionExpander::expand(const Pad& s) {
  return set(apply("Pad", in(), {{"top", s.top}, {"bottom", s.bottom}, {"left", s.left}, {"right", s.right}, {"multiple", s.multiple},
                                 {"mode", mode_name(s.mode)}, {"value", s.value}}));
}

Status SectionExpander::expand(const Rotate90& s) {
  if (step_->in.size() > 1) return set(turned_where());
  if (s.turns == 2) return set(apply("HalfTurn", in(), {}));
  return set(apply("QuarterTurn", in(), {{"left", flag(s.turns == 1)}}));
}

// Turned where the one element of the second input is true.
Result<lang::Value> SectionExpander::turned_where() {
  const nest::Array& where = function_.arrays[values_.at(step_->in[1]).array];
  const std::string& name = pipeline_.value(step_->in[1]).name;
  if (where.dtype != DType::Bool || where.shape.size() != 1 || (where.shape[0]->is_const() && where.shape[0]->i != 1))
    return Status(Code::Usage, 5009, "step 'rotate90': 'where' is one truth value, bool[1], and '{}' is {} with {} axes", name, name_of(where.dtype), where.shape.size())
        .hint("threshold makes truth values, column takes one of a row");
  if (!where.shape[0]->is_const()) function_.checks.push_back({ctx_.binary(ir::Op::Eq, where.shape[0], ctx_.integer(1)), "'" + name + "' must be one truth value"});
  lang::Call call = call_of("HalfTurnWhere", {}, "mlc.pipeline");
  call.inputs = {in(), values_.at(step_->in[1])};
  MLC_ASSIGN(const std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return out[0];
}

Status SectionExpander::expand(const ConvertColor& s) {
  if (s.from == s.to) return set(in());
  if (picture() && picture()->alpha)
    return Status(Code::Unsupported, 5008, "step 'color': pictures with an alpha channel are not compiled; decode with \"alpha\": \"drop\" or \"over\"");
  if (s.to == Color::Gray) return set(apply("Gray", in(), {{"first", int64_t{s.from == Color::Rgb ? 0 : 2}}, {"like", std::string(s.like == Like::Pillow ? "pillow" : "opencv")}}));
  return set(apply(s.from == Color::Gray ? "SpreadChannel" : "SwapChannels", in(), {}));
}

Status SectionExpander::expand(const Normalize& s) {
  lang::Value value = in();
  if (s.has_div) {
    MLC_ASSIGN(value, apply("Divide", value, {{"by", double{s.div}}}));
  } else if (function_.arrays[value.array].dtype != DType::F32) {
    MLC_ASSIGN(value, apply("Float", value, {}));
  }
  // Channels are last for these operators; a picture whose channels come first is turned, changed and turned back.
  const bool per_channel = s.mean.size() > 1 || s.std.size() > 1;
  const bool turned = per_channel && picture() && is_channels_first(picture()->layout);
  if (turned) {
    MLC_ASSIGN(value, transpose(value, is_batched(picture()->layout) ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{1, 2, 0}));
  }
  const auto change = [&](const std::vector<float>& by, const std::string& op, const std::string& attribute) -> Status {
    if (by.empty()) return ok();
    if (by.size() == 1) {
      MLC_ASSIGN(value, apply(op + "All", value, {{attribute, double{by[0]}}}));
    } else {
      MLC_ASSIGN(value, apply(op + "PerChannel", value, {{attribute, std::vector<double>(by.begin(), by.end())}}));
    }
    return ok();
  };
  MLC_RETURN_IF_ERROR(change(s.mean, "Subtract", "mean"));
  MLC_RETURN_IF_ERROR(change(s.std, "Divide", "std"));
  if (turned) {
    MLC_ASSIGN(value, transpose(value, is_batched(picture()->layout) ? std::vector<int64_t>{0, 3, 1, 2} : std::vector<int64_t>{2, 0, 1}));
  }
  return set(value);
}

Status SectionExpander::expand(const LayoutStep& s) {
  lang::Value value = in();
  const int64_t lead = is_batched(s.from) ? 1 : 0;
  if (is_channels_first(s.from) != is_channels_first(s.to)) {
    std::vector<int64_t> order = is_channels_first(s.to) ? std::vector<int64_t>{2, 0, 1} : std::vector<int64_t>{1, 2, 0};
    if (lead) {
      for (int64_t& axis : order) ++axis;
      order.insert(order.begin(), 0);
    }
    MLC_ASSIGN(value, transpose(value, order));
  }
  if (is_batched(s.to) && !is_batched(s.from)) {
    MLC_ASSIGN(value, apply("AddBatch", value, {}));
  }
  return set(value);
}

Attributes SectionExpander::fitted(const Fitted& of) {
  if (const auto* box = std::get_if<Letterbox>(&of))
    return {{"fit", std::string(box->upscale ? "grown" : "inside")}, {"height", box->height}, {"width", box->width}, {"boxed", int64_t{1}}};
  const auto& r = std::get<Resize>(of);
  return {{"fit", fit_name(r.fit)}, {"height", r.height}, {"width", r.width}, {"size", r.size}, {"round", round_name(r.round)}, {"boxed", int64_t{0}}};
}

}  // namespace mlc::pipeline
