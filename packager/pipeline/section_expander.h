// What expand_pipeline.h makes of one section: its steps one after the other, each by the text of its operator. The definitions stand by
// subject: expand_inputs.cpp (what goes in and comes out), expand_pictures.cpp, expand_arrays.cpp, expand_boxes.cpp, expand_sounds.cpp.
// Private to this folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "packager/compile/expand.h"
#include "packager/pipeline/expand_pipeline.h"

namespace mlc::pipeline {

using Attributes = std::map<std::string, lang::Attribute>;
using Known = std::map<ValueId, KnownArray>;

constexpr int64_t kMostElements = int64_t{1} << 32;  // along an axis that a run decides

inline int64_t flag(bool b) { return b ? 1 : 0; }
inline bool is_batched(PixelLayout layout) { return layout == PixelLayout::Nchw || layout == PixelLayout::Nhwc; }
inline bool is_channels_first(PixelLayout layout) { return layout == PixelLayout::Nchw || layout == PixelLayout::Chw; }

class SectionExpander {
 public:
  // `known`: what earlier sections of the pipeline give; what this one gives is added.
  SectionExpander(ir::Context& ctx, const lang::Library& library, const Models& programs, const Pipeline& pipeline, const Section& section, Known& known)
      : ctx_(ctx), library_(library), programs_(programs), pipeline_(pipeline), section_(section), known_(known) {
    function_.name = section.program;
  }

  Result<nest::Function> run();

 private:
  static std::optional<int64_t> extent_of(const ir::Expr* e) { return e->is_const() ? std::optional<int64_t>(e->i) : std::nullopt; }
  std::optional<int64_t> classes_of(ValueId id) const;
  Status check_groups() const;
  Status placed(Status problems) const;

  // What goes in and comes out: expand_inputs.cpp.
  Status add_input(ValueId id);
  const Stream::Carried* carried_of(ValueId id) const;
  Status add_carried(ValueId id, const Stream::Carried& carried);
  Status add_known(ValueId id, nest::Array array);
  bool is_seed(ValueId id) const;
  bool takes_rest(ValueId id) const;
  Status add_rest(ValueId id, const Stream::Carried& carried, const std::string& place);
  bool keeps_channels(ValueId id) const;
  const ir::Expr* free_extent(const std::string& name, int64_t least, int64_t most);
  static std::string free_name(const Value& value, size_t axis) { return value.name + "." + std::to_string(axis); }
  const model::Port* port_that_takes(ValueId id) const;
  nest::Array array_of_port(const Value& value, const model::Port& port);
  Status add_input_array(ValueId id, nest::Array array);
  std::vector<const ir::Expr*> shape_of_tokens(ValueId id);

  // The input of that name; null where there is none.
  template <class Fed>
  const model::Port* port_of(const Fed& run, const std::string& name) const {
    const auto program = programs_.find(run.program);
    if (program == programs_.end()) return nullptr;
    const auto& ports = program->second->graph.inputs;
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const model::Port& p) { return p.name == name; });
    return port == ports.end() ? nullptr : &*port;
  }

  // Numbers of tokens as a model takes them: an array of its own, whose axes are then the model's, and i32 where it wants that.
  template <class Fed>
  Result<lang::Value> tokens_for(const Fed& run, const std::string& name, const lang::Value& value) {
    const model::Port* port = port_of(run, name);
    if (!port || (port->dtype != DType::I64 && port->dtype != DType::I32) || port->shape.size() != 2) return value;
    const auto* length = std::get_if<int64_t>(&port->shape[1]);
    const nest::Array& array = function_.arrays[value.array];
    if (length && !array.shape[1]->is_const())
      return Status(Code::Usage, 5009, "the model wants '" + name + "' with " + std::to_string(*length) + " tokens, and 'tokenize' pads to the longest text")
          .hint("\"pad\": {\"to\": " + std::to_string(*length) + ", ...} and a 'truncate' of at most that");
    return port->dtype == DType::I32 ? apply("Cast", value, {{"to", DType::I32}}, "ai.onnx") : apply("Identity", value, {}, "ai.onnx");
  }

  Status add_output(ValueId id);

  // Operators.
  lang::Call call_of(const std::string& name, Attributes attributes, const std::string& domain) const;
  Result<lang::Value> apply(const std::string& name, const lang::Value& in, Attributes attributes, const std::string& domain = "mlc.pipeline");
  const lang::Value& in() const { return values_.at(step_->in.at(0)); }
  Status set(Result<lang::Value> out);

  // Pictures: expand_pictures.cpp.
  const Picture* picture() const;
  static Attributes fitted(const Fitted& of);
  Status expand(const Resize& s);
  Status expand(const Letterbox& s);
  Status expand(const Crop& s);
  Status expand(const Pad& s);
  Status expand(const Flip& s) { return set(apply("Flip", in(), {{"horizontal", flag(s.axis == Axis::Horizontal)}})); }
  Status expand(const Rotate90& s);
  Result<lang::Value> turned_where();
  Status expand(const ConvertColor& s);
  Status expand(const Normalize& s);
  Status expand(const LayoutStep& s);

  // Arrays: expand_arrays.cpp.
  Result<lang::Value> transpose(const lang::Value& value, std::vector<int64_t> order);
  Status expand(const Cast& s);
  Status expand(const Softmax& s) { return set(apply("Softmax", in(), {{"axis", s.axis}}, "ai.onnx")); }
  Status expand(const Sigmoid&) { return set(apply("Sigmoid", in(), {}, "ai.onnx")); }
  Status expand(const Argmax& s) { return set(apply("ArgMax", in(), {{"axis", s.axis}, {"keepdims", int64_t{0}}}, "ai.onnx")); }
  Status expand(const Threshold& s) { return set(apply("Threshold", in(), {{"value", s.value}, {"or_equal", flag(s.or_equal)}})); }
  Status expand(const Pool& s);
  lang::Value axes_of(const std::vector<int64_t>& axes);
  Status expand(const UnitLength&) { return set(apply("UnitLength", in(), {})); }
  Status expand(const Truncate& s);
  Status expand(const NewAxis& s);
  Status expand(const Column& s);
  Status expand(const Transpose& s);
  Status expand(const Constant& s);

  // Heads of detectors: expand_boxes.cpp. What a step on boxes takes at place k: floats of so many axes, f32 where there are two of them, and `extent` along `axis`.
  struct Wanted {
    size_t rank = 0, axis = 0;
    int64_t least = 0, most = INT64_MAX;  // of that extent, where it is known
    const char* what = "";
  };
  Status need(size_t k, const Wanted& wanted) const;
  Status need_places(const Boxes& s) const;
  static constexpr const char* kRows = "floats [1, boxes, 5 and as many as there are classes]";
  static constexpr const char* kMarks = "scores as floats [1, boxes, classes and the background]";
  Status expand(const Boxes& s);
  Status expand(const Nms& s);
  Status expand(const Keypoints& s);
  Status expand(const Masks& s);
  Status expand(const Paint& s);
  Status expand(const Unletterbox& s);

  // Sounds: expand_sounds.cpp.
  Status need_sound(size_t axes) const;
  Status need_as(size_t k, size_t axes) const;
  Result<int64_t> row_length() const;
  template <class T>
  lang::Value constant(DType dtype, const std::vector<T>& values, const std::vector<int64_t>& shape) {
    nest::Array array;
    array.name = step_->op + std::to_string(function_.arrays.size());
    array.kind = nest::Array::Kind::Const;
    array.dtype = dtype;
    for (const int64_t extent : shape) array.shape.push_back(ctx_.integer(extent));
    const auto* from = reinterpret_cast<const std::byte*>(values.data());
    auto bytes = std::make_shared<std::vector<std::byte>>(from, from + values.size() * sizeof(T));
    array.data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    function_.arrays.push_back(std::move(array));
    return {static_cast<uint32_t>(function_.arrays.size() - 1), {}};
  }
  lang::Value table(const std::vector<double>& values, const std::vector<int64_t>& shape);
  Result<lang::Value> apply_two(const std::string& name, const lang::Value& first, const lang::Value& second, const std::string& domain, Attributes attributes = {});
  Status expand(const Fit& s);
  Status expand(const Resample& s);
  Status expand(const Frame& s);
  Status expand(const Window& s);
  Status expand(const PreEmphasis& s);
  Result<lang::Value> fourier(const lang::Value& complex, int64_t length, Attributes attributes);
  Status expand(const Stft& s);
  Status expand(const Istft& s);
  Status expand(const OverlapAdd& s);
  Status go_on(const OverlapAdd& s, int64_t length);
  Status expand(const Mel& s);
  Status expand(const Log& s);
  Status expand(const MeanVar& s);

  // Programs.
  Result<const model::Model*> program_of(const std::string& name) const;

  // What a program is given, numbers of tokens as it wants them.
  template <class Fed>
  Result<std::map<std::string, lang::Value>> given_to(const Fed& s) {
    std::map<std::string, lang::Value> given;
    for (const auto& [name, id] : s.inputs) {
      given[name] = values_.at(id);
      if (pipeline_.value(id).is_tokens) {
        MLC_ASSIGN(given[name], tokens_for(s, name, values_.at(id)));
      } else if (function_.arrays[values_.at(id).array].kind == nest::Array::Kind::Input) {
        MLC_ASSIGN(given[name], apply("Identity", values_.at(id), {}, "ai.onnx"));  // its axes become the model's
      }
    }
    return given;
  }

  Status expand(const Run& s);
  Status expand(const Generate& s);
  Result<std::optional<compile::Sampling>> sampling_of(const Generate& s) const;

  template <class HostStep>
  Status expand(const HostStep&) {
    return Status(Code::Internal, "a step of the host among those that are compiled");
  }

  ir::Context& ctx_;
  const lang::Library& library_;
  const Models& programs_;
  const Pipeline& pipeline_;
  const Section& section_;
  Known& known_;
  nest::Function function_;
  std::map<ValueId, lang::Value> values_;
  std::map<ValueId, std::optional<int64_t>> classes_;  // of detections
  const Step* step_ = nullptr;
  size_t runs_ = 0;  // `run` steps so far
};

}  // namespace mlc::pipeline
