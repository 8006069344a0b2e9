#include <algorithm>
#include <array>

#include "runtime/pipeline/reference/array_steps.h"

namespace mlc::pipeline::reference {
namespace {

struct Evaluate {
  const HostTensor& in;
  PixelLayout layout_of_in;
  const HostTensor* mask;  // the second input; null where the step takes none
  std::array<const HostTensor*, 2> others;  // the third and the fourth one

  Result<HostTensor> operator()(const Resize& s) const { return resize(s, in); }
  Result<HostTensor> operator()(const Letterbox& s) const { return letterbox(s, in); }
  Result<HostTensor> operator()(const Crop& s) const { return crop(s, in); }
  Result<HostTensor> operator()(const Pad& s) const { return pad(s, in); }
  Result<HostTensor> operator()(const Flip& s) const { return flip(s, in); }
  Result<HostTensor> operator()(const Rotate90& s) const {
    if (mask && mask->as<uint8_t>()[0] == 0) return in.clone();
    return rotate90(s, in);
  }
  Result<HostTensor> operator()(const ConvertColor& s) const { return convert_color(s, in); }
  Result<HostTensor> operator()(const Normalize& s) const { return normalize(s, in, layout_of_in); }
  Result<HostTensor> operator()(const LayoutStep& s) const { return layout(s, in); }
  Result<HostTensor> operator()(const Cast& s) const { return cast(s, in); }
  Result<HostTensor> operator()(const Softmax& s) const { return softmax(s, in); }
  Result<HostTensor> operator()(const Sigmoid&) const { return sigmoid(in); }
  Result<HostTensor> operator()(const Argmax& s) const { return argmax(s, in); }
  Result<HostTensor> operator()(const Threshold& s) const { return threshold(s, in); }
  Result<HostTensor> operator()(const UnitLength&) const { return unit_length(in); }
  Result<HostTensor> operator()(const Truncate& s) const { return truncate(s, in); }
  Result<HostTensor> operator()(const NewAxis& s) const {
    MLC_ASSIGN(HostTensor out, in.clone());
    out.shape.insert(out.shape.begin() + s.at, 1);
    return out;
  }
  Result<HostTensor> operator()(const Column& s) const { return column(s, in); }
  Result<HostTensor> operator()(const Transpose& s) const { return transpose(s, in); }
  Result<HostTensor> operator()(const Fit& s) const { return fit(s, in); }
  Result<HostTensor> operator()(const Resample& s) const { return resample(s, in); }
  Result<HostTensor> operator()(const Frame& s) const { return frame(s, in); }
  Result<HostTensor> operator()(const Window& s) const { return window(s, in); }
  Result<HostTensor> operator()(const PreEmphasis& s) const { return pre_emphasis(s, in); }
  Result<HostTensor> operator()(const Stft& s) const { return stft(s, in); }
  Result<HostTensor> operator()(const Istft& s) const { return istft(s, in, mask); }
  Result<HostTensor> operator()(const OverlapAdd& s) const { return overlap_add(s, in, mask); }
  Result<HostTensor> operator()(const Mel& s) const { return mel(s, in); }
  Result<HostTensor> operator()(const Log& s) const { return log(s, in); }
  Result<HostTensor> operator()(const MeanVar& s) const { return mean_var(s, in); }
  Result<HostTensor> operator()(const Pool& s) const { return pool(s, in, *mask); }
  Result<HostTensor> operator()(const Keypoints& s) const { return keypoints(s, in, *mask); }
  Result<HostTensor> operator()(const Masks& s) const { return masks(s, in, *mask, *others[0], *others[1]); }
  Result<HostTensor> operator()(const Paint& s) const { return paint(s, in, *mask); }
  Result<HostTensor> operator()(const Unletterbox& s) const { return unletterbox(s, in, *mask); }
  template <class HostOrRun>
  Result<HostTensor> operator()(const HostOrRun&) const {
    return Status(Code::Internal, "not an array step");
  }
};

}  // namespace

Status run_array_steps(const Pipeline& p, std::vector<NamedTensor>& values) {
  auto find = [&](ValueId id) -> const NamedTensor* {
    for (const NamedTensor& v : values)
      if (v.name == p.value(id).name) return &v;
    return nullptr;
  };
  for (const Step& step : p.steps) {
    if (!is_array_step(step.what) || std::holds_alternative<Run>(step.what) || find(step.out[0])) continue;
    if (const auto* what = std::get_if<Constant>(&step.what)) {
      MLC_ASSIGN(HostTensor made, constant(*what));
      values.push_back({p.value(step.out[0]).name, std::move(made)});
      continue;
    }
    const NamedTensor* in = find(step.in[0]);
    const NamedTensor* mask = step.in.size() > 1 ? find(step.in[1]) : nullptr;
    if (!in || (step.in.size() > 1 && !mask)) continue;
    const auto& picture = p.value(step.in[0]).picture;
    if (const auto* what = std::get_if<Boxes>(&step.what)) {
      auto both = boxes(*what, in->tensor, mask ? &mask->tensor : nullptr);
      if (!both.ok()) return std::move(both).status().note("step 'boxes'");
      values.push_back({p.value(step.out[0]).name, std::move(both->boxes)});
      values.push_back({p.value(step.out[1]).name, std::move(both->scores)});
      if (step.out.size() > 2) values.push_back({p.value(step.out[2]).name, std::move(both->extra)});
      continue;
    }
    if (const auto* what = std::get_if<OverlapAdd>(&step.what); what && what->goes_on) {
      auto both = overlap_add_on(*what, in->tensor, mask->tensor);
      if (!both.ok()) return std::move(both).status().note("step 'overlap_add'");
      values.push_back({p.value(step.out[0]).name, std::move(both->first)});
      values.push_back({p.value(step.out[1]).name, std::move(both->second)});
      continue;
    }
    std::array<const HostTensor*, 2> others{};
    bool has_all = true;
    for (size_t k = 2; k < step.in.size() && k < 4; ++k) {
      const NamedTensor* other = find(step.in[k]);
      has_all = has_all && other;
      others[k - 2] = other ? &other->tensor : nullptr;
    }
    if (!has_all) continue;
    if (const auto* what = std::get_if<Nms>(&step.what)) {
      auto kept = nms(*what, in->tensor, mask->tensor, others[0]);
      if (!kept.ok()) return std::move(kept).status().note("step 'nms'");
      values.push_back({p.value(step.out[0]).name, std::move(kept->found)});
      if (step.out.size() > 1) values.push_back({p.value(step.out[1]).name, std::move(kept->extra)});
      continue;
    }
    auto made = std::visit(Evaluate{in->tensor, picture ? picture->layout : PixelLayout::Hwc, mask ? &mask->tensor : nullptr, others}, step.what);
    if (!made.ok()) return std::move(made).status().note("step '" + step.op + "'");
    values.push_back({p.value(step.out[0]).name, std::move(made).value()});
  }
  return ok();
}

}  // namespace mlc::pipeline::reference
