// Arrays of any kind: types, axes, pooling, constants.
#include "packager/pipeline/section_expander.h"

namespace mlc::pipeline {

Result<lang::Value> SectionExpander::transpose(const lang::Value& value, std::vector<int64_t> order) {
  return apply("Transpose", value, {{"perm", std::move(order)}}, "ai.onnx");
}

Status SectionExpander::expand(const Cast& s) {
  if (is_float(s.to)) return set(apply("Cast", in(), {{"to", s.to}}, "ai.onnx"));
  return set(apply("Quantize", in(), {{"to", s.to}}));
}

// Floats [texts, tokens, columns] and which of the tokens count, [texts, tokens].
Status SectionExpander::expand(const Pool& s) {
  static constexpr std::pair<Pool::How, const char*> kNames[] = {
      {Pool::How::Mean, "mean"}, {Pool::How::MeanSqrtLen, "mean_sqrt_len"}, {Pool::How::WeightedMean, "weightedmean"},
      {Pool::How::First, "first"}, {Pool::How::Last, "last"}, {Pool::How::Max, "max"}};
  const auto* name = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& entry) { return entry.first == s.how; });
  lang::Call call = call_of("Pool", {{"how", std::string(name->second)}}, "mlc.pipeline");
  call.inputs = {in(), values_.at(step_->in.at(1))};
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return set(std::move(out[0]));
}

// A list of axes, as an input whose numbers are known.
lang::Value SectionExpander::axes_of(const std::vector<int64_t>& axes) {
  lang::Value value = constant(DType::I64, axes, {static_cast<int64_t>(axes.size())});
  for (const int64_t axis : axes) value.elements.push_back(ctx_.integer(axis));
  return value;
}

Status SectionExpander::expand(const Truncate& s) {
  const auto& shape = function_.arrays[in().array].shape;
  if (!shape.empty() && shape.back()->is_const() && shape.back()->i < s.columns)
    return Status(Code::Usage, 5009, "step 'truncate' keeps {} columns, '{}' has {}", s.columns, pipeline_.value(step_->in[0]).name, shape.back()->i);
  return set(apply("FirstColumns", in(), {{"columns", s.columns}}));
}

Status SectionExpander::expand(const NewAxis& s) {
  const size_t rank = function_.arrays[in().array].shape.size();
  if (s.at > static_cast<int64_t>(rank))
    return Status(Code::Usage, 5009, "step 'new_axis' is at {}, '{}' has {} axes", s.at, pipeline_.value(step_->in[0]).name, rank);
  return set(apply("NewAxis", in(), {{"at", s.at}}));
}

Status SectionExpander::expand(const Column& s) {
  const auto& shape = function_.arrays[in().array].shape;
  if (shape.empty() || (shape.back()->is_const() && shape.back()->i <= s.index))
    return Status(Code::Usage, 5009, "step 'column' takes column {}, '{}' has {}", s.index, pipeline_.value(step_->in[0]).name, shape.empty() ? 0 : shape.back()->i);
  if (!shape.back()->is_const())
    function_.checks.push_back({ctx_.binary(ir::Op::Le, ctx_.integer(s.index + 1), shape.back()),
                                "step 'column' takes column " + std::to_string(s.index) + ", and '" + pipeline_.value(step_->in[0]).name + "' has fewer"});
  return set(apply("Column", in(), {{"index", s.index}}));
}

Status SectionExpander::expand(const Transpose& s) {
  const size_t rank = function_.arrays[in().array].shape.size();
  if (s.order.size() != rank)
    return Status(Code::Usage, 5009, "step 'transpose' orders {} axes, '{}' has {}", s.order.size(), pipeline_.value(step_->in[0]).name, rank);
  return set(transpose(in(), s.order));
}

Status SectionExpander::expand(const Constant& s) {
  const size_t count = s.whole.size() + s.real.size();
  const std::vector<int64_t> shape = s.is_list ? std::vector<int64_t>{static_cast<int64_t>(count)} : std::vector<int64_t>{};
  switch (s.dtype) {
    case DType::I64: return set(constant(s.dtype, s.whole, shape));
    case DType::I32: return set(constant(s.dtype, std::vector<int32_t>(s.whole.begin(), s.whole.end()), shape));
    case DType::F64: return set(constant(s.dtype, s.real, shape));
    default: return set(constant(s.dtype, std::vector<float>(s.real.begin(), s.real.end()), shape));
  }
}

}  // namespace mlc::pipeline
