#include "packager/pipeline/expand_pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/problems.h"
#include "packager/compile/expand.h"
#include "packager/nest/names.h"
#include "packager/pipeline/generation.h"
#include "schema/pipeline/geometry.h"
#include "schema/pipeline/sound_tables.h"

namespace mlc::pipeline {
namespace {

using lang::Attribute;
using Attributes = std::map<std::string, Attribute>;

constexpr int64_t kMostElements = int64_t{1} << 32;  // along an axis that a run decides

int64_t flag(bool b) { return b ? 1 : 0; }

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

bool is_batched(PixelLayout layout) { return layout == PixelLayout::Nchw || layout == PixelLayout::Nhwc; }
bool is_channels_first(PixelLayout layout) { return layout == PixelLayout::Nchw || layout == PixelLayout::Chw; }

using Known = std::map<ValueId, KnownArray>;

// One section.
class Expander {
 public:
  // `known`: what earlier sections of the pipeline give; what this one gives is added.
  Expander(ir::Context& ctx, const lang::Library& library, const Models& programs, const Pipeline& pipeline, const Section& section, Known& known)
      : ctx_(ctx), library_(library), programs_(programs), pipeline_(pipeline), section_(section), known_(known) {
    function_.name = section.program;
  }

  Result<nest::Function> run() {
    for (const uint32_t k : section_.steps) {
      step_ = &pipeline_.steps[k];
      const auto* run = std::get_if<Run>(&step_->what);
      const auto* generate = std::get_if<Generate>(&step_->what);
      if (!run && !generate) continue;
      if (auto program = program_of(run ? run->program : generate->program); !program.ok()) return placed(std::move(program).status());
    }
    for (const ValueId id : section_.in) MLC_RETURN_IF_ERROR(add_input(id));
    for (const uint32_t k : section_.steps) {
      step_ = &pipeline_.steps[k];
      Status done = std::visit([&](const auto& what) { return expand(what); }, step_->what);
      if (!done.ok()) return placed(std::move(done));
    }
    for (const ValueId id : section_.out) MLC_RETURN_IF_ERROR(add_output(id));
    for (size_t k = 0; k < section_.out.size(); ++k) {
      const nest::Array& array = function_.arrays[function_.outputs[k]];
      KnownArray& known = known_[section_.out[k]];
      known.dtype = array.dtype;
      for (const ir::Expr* extent : array.shape) known.shape.push_back(extent_of(extent));
      known.classes = classes_of(section_.out[k]);
    }
    nest::interface_names_first(function_);
    return std::move(function_);
  }

 private:
  static std::optional<int64_t> extent_of(const ir::Expr* e) { return e->is_const() ? std::optional<int64_t>(e->i) : std::nullopt; }
  // Of detections, in this section or before it.
  std::optional<int64_t> classes_of(ValueId id) const {
    if (const auto here = classes_.find(id); here != classes_.end()) return here->second;
    const auto known = known_.find(id);
    return known == known_.end() ? std::nullopt : known->second.classes;
  }

  // Every problem of the step, with the place of the step.
  Status placed(Status problems) const {
    const std::string place = place_of(pipeline_, step_->where);
    problems.message = place + problems.message;
    if (problems.number == 5009)
      for (std::string& fact : problems.facts) fact = place + fact;
    return problems;
  }

  Status add_input(ValueId id) {
    const Value& value = pipeline_.value(id);
    nest::Array array;
    array.name = value.name;
    array.kind = nest::Array::Kind::Input;
    if (value.is_tokens) {
      array.dtype = DType::I64;
      array.shape = shape_of_tokens(id);
      return add_input_array(id, std::move(array));
    }
    if (const auto known = known_.find(id); known != known_.end()) {
      array.dtype = known->second.dtype;
      for (size_t axis = 0; axis < known->second.shape.size(); ++axis) {
        const std::optional<int64_t> extent = known->second.shape[axis];
        array.shape.push_back(extent ? ctx_.integer(*extent) : free_extent(free_name(value, axis), 0, kMostElements));
      }
      return add_input_array(id, std::move(array));
    }
    if (value.is_sound) {
      array.dtype = DType::F32;
      const bool is_cut = pipeline_.stream && pipeline_.stream->sound == id;
      array.shape = {is_cut ? ctx_.integer(pipeline_.stream->window()) : free_extent(value.name + ".samples", 0, int64_t{1} << 31)};
      if (keeps_channels(id)) array.shape.push_back(free_extent(value.name + ".channels", 1, 1 << 16));
      return add_input_array(id, std::move(array));
    }
    if (const Stream::Carried* carried = carried_of(id)) return add_carried(id, *carried);
    if (!value.picture && is_seed(id)) {
      array.dtype = DType::I64;
      array.shape = {ctx_.integer(1)};
      return add_input_array(id, std::move(array));
    }
    if (!value.picture) {
      if (const model::Port* port = port_that_takes(id)) return add_input_array(id, array_of_port(value, *port));
      return Status(Code::Unsupported, 5008, "pipeline '{}': input '{}' is no picture and no text, and no program takes it, whose type it would have", pipeline_.name, value.name);
    }
    const Picture& picture = *value.picture;
    array.dtype = picture.dtype;
    // A side that the file decides: at least one pixel, at most what decoders let through.
    const auto side = [&](int64_t extent, const char* axis) {
      return extent >= 0 ? ctx_.integer(extent) : free_extent(value.name + "." + axis, 1, int64_t{1} << 28);
    };
    const ir::Expr* height = side(picture.height, "height");
    const ir::Expr* width = side(picture.width, "width");
    const ir::Expr* channels = ctx_.integer(picture.channels);
    array.shape = is_channels_first(picture.layout) ? std::vector{channels, height, width} : std::vector{height, width, channels};
    const ir::Expr* pictures = picture.most == 1 ? ctx_.integer(1) : free_extent(free_name(value, 0), 1, picture.most);
    if (is_batched(picture.layout)) array.shape.insert(array.shape.begin(), pictures);
    return add_input_array(id, std::move(array));
  }

  const Stream::Carried* carried_of(ValueId id) const {
    if (!pipeline_.stream) return nullptr;
    const auto& all = pipeline_.stream->carry;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Stream::Carried& c) { return c.value == id; });
    return found == all.end() ? nullptr : &*found;
  }

  // What the first run of a stream begins with is zeros: all extents are known.
  Status add_carried(ValueId id, const Stream::Carried& carried) {
    const Value& value = pipeline_.value(id);
    const std::string place = place_of(pipeline_, carried.where);
    const model::Port* port = port_that_takes(id);
    if (!port && takes_rest(id)) return add_rest(id, carried, place);
    if (!port)
      return Status(Code::Unsupported, 5008, place + "the stream carries '" + value.name + "', and no 'run' and no 'overlap_add' takes it, whose type it would have");
    nest::Array array = array_of_port(value, *port);
    const auto misfit = [&](const std::string& why, const std::string& help) {
      return Status(Code::Usage, 5009, place + "the stream carries '" + value.name + "', " + why).hint(help);
    };
    const size_t rank = array.shape.size();
    if (carried.shape && carried.shape->size() != rank)
      return misfit("whose 'shape' has " + counted(carried.shape->size(), "extent") + ", and the program takes " + std::to_string(rank),
          "as many as the program takes");
    for (size_t axis = 0; axis < rank; ++axis) {
      if (carried.shape) {
        const int64_t given = (*carried.shape)[axis];
        if (array.shape[axis]->is_const() && array.shape[axis]->i != given)
          return misfit("whose extent " + std::to_string(axis) + " is " + std::to_string(given) + ", and the program takes " +
              std::to_string(array.shape[axis]->i), "the extents of the program");
        array.shape[axis] = ctx_.integer(given);
      } else if (!array.shape[axis]->is_const()) {
        return misfit("whose extent " + std::to_string(axis) + " is free in the program", "\"" + value.name + "\": {\"from\": \"" +
            pipeline_.value(carried.from).name + "\", \"shape\": [...]}");
      }
    }
    return add_known(id, std::move(array));
  }

  // Another section may take it too, and has what this one knows.
  Status add_known(ValueId id, nest::Array array) {
    KnownArray& known = known_[id];
    known.dtype = array.dtype;
    for (const ir::Expr* extent : array.shape) known.shape.push_back(extent_of(extent));
    return add_input_array(id, std::move(array));
  }

  // The seed of a `generate` of this section.
  bool is_seed(ValueId id) const {
    return std::any_of(section_.steps.begin(), section_.steps.end(), [&](uint32_t k) {
      const Step& step = pipeline_.steps[k];
      const auto* generate = std::get_if<Generate>(&step.what);
      return generate && generate->sampling && generate->sampling->has_seed_input && step.in.back() == id;
    });
  }

  // "before" of an `overlap_add` of this section.
  bool takes_rest(ValueId id) const {
    return std::any_of(section_.steps.begin(), section_.steps.end(), [&](uint32_t k) {
      const Step& step = pipeline_.steps[k];
      const auto* add = std::get_if<OverlapAdd>(&step.what);
      return add && add->goes_on && step.in.size() > 1 && step.in[1] == id;
    });
  }

  Status add_rest(ValueId id, const Stream::Carried& carried, const std::string& place) {
    const Value& value = pipeline_.value(id);
    if (!carried.shape)
      return Status(Code::Usage, 5009, place + "the stream carries '" + value.name + "', which 'overlap_add' takes, and the file does not say its shape")
          .hint("\"" + value.name + "\": {\"from\": \"" + pipeline_.value(carried.from).name + "\", \"shape\": [..., samples by which rows overlap]}");
    nest::Array array;
    array.name = value.name;
    array.kind = nest::Array::Kind::Input;
    array.dtype = DType::F32;
    for (const int64_t extent : *carried.shape) array.shape.push_back(ctx_.integer(extent));
    return add_known(id, std::move(array));
  }

  bool keeps_channels(ValueId id) const {
    return std::any_of(pipeline_.steps.begin(), pipeline_.steps.end(), [&](const Step& s) {
      const auto* decode = std::get_if<DecodeAudio>(&s.what);
      return decode && s.out[0] == id && decode->channels == Channels::Keep;
    });
  }

  // A symbol keeps the bounds that it had first: what has others under the same name, in another pipeline, is called after its program too.
  const ir::Expr* free_extent(const std::string& name, int64_t least, int64_t most) {
    const ir::Sym* sym = ctx_.declare_sym(name, least, most);
    if (sym->lo != least || sym->hi != most) sym = ctx_.declare_sym(function_.name + ":" + name, least, most);
    return ctx_.sym(sym);
  }

  static std::string free_name(const Value& value, size_t axis) { return value.name + "." + std::to_string(axis); }

  // The input of a program that takes this value, which is an array of the caller; null where none does.
  const model::Port* port_that_takes(ValueId id) const {
    const auto found_in = [&](const auto& fed) -> const model::Port* {
      for (const auto& [name, given] : fed.inputs)
        if (const model::Port* port = given == id ? port_of(fed, name) : nullptr; port && port->has_shape && !port->list_depth) return port;
      return nullptr;
    };
    for (const uint32_t k : section_.steps) {
      const Op& what = pipeline_.steps[k].what;
      const auto *run = std::get_if<Run>(&what);
      const auto *generate = std::get_if<Generate>(&what);
      if (const model::Port* port = run ? found_in(*run) : generate ? found_in(*generate) : nullptr) return port;
    }
    return nullptr;
  }

  nest::Array array_of_port(const Value& value, const model::Port& port) {
    nest::Array array;
    array.name = value.name;
    array.kind = nest::Array::Kind::Input;
    array.dtype = port.dtype;
    for (size_t axis = 0; axis < port.shape.size(); ++axis) {
      const auto* extent = std::get_if<int64_t>(&port.shape[axis]);
      array.shape.push_back(extent ? ctx_.integer(*extent) : free_extent(free_name(value, axis), 0, kMostElements));
    }
    return array;
  }

  Status add_input_array(ValueId id, nest::Array array) {
    function_.inputs.push_back(static_cast<uint32_t>(function_.arrays.size()));
    values_[id] = lang::Value{static_cast<uint32_t>(function_.arrays.size()), {}};
    function_.arrays.push_back(std::move(array));
    return ok();
  }

  // [texts, tokens], alike for all that one step makes. The number of texts is that of the model where that is fixed, the
  // other one what the step fills up to.
  std::vector<const ir::Expr*> shape_of_tokens(ValueId id) {
    const auto step = std::find_if(pipeline_.steps.begin(), pipeline_.steps.end(),
                                   [&](const Step& s) { return std::find(s.out.begin(), s.out.end(), id) != s.out.end(); });
    const std::string name = pipeline_.value(step->out[0]).name;
    const int64_t length = std::get<Tokenize>(step->what).pad_to;
    const ir::Expr* texts = nullptr;
    for (const Step& s : pipeline_.steps) {
      const auto fixed_by = [&](const auto& fed) {
        for (const auto& [name, given] : fed.inputs) {
          const model::Port* port = port_of(fed, name);
          if (!port || port->shape.empty() || std::find(step->out.begin(), step->out.end(), given) == step->out.end()) continue;
          if (const auto* extent = std::get_if<int64_t>(&port->shape[0])) texts = ctx_.integer(*extent);
        }
      };
      if (const auto* run = std::get_if<Run>(&s.what)) fixed_by(*run);
      if (const auto* generate = std::get_if<Generate>(&s.what)) fixed_by(*generate);
    }
    constexpr int64_t kMost = int64_t{1} << 28;  // of both, more than a run's memory holds
    if (!texts) texts = free_extent(name + ".texts", 0, kMost);
    return {texts, length > 0 ? ctx_.integer(length) : free_extent(name + ".tokens", 1, kMost)};
  }

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

  // An answer is an array of its own under the name of the value, also where steps changed nothing.
  Status add_output(ValueId id) {
    lang::Value& value = values_.at(id);
    const auto& outputs = function_.outputs;
    const bool is_taken = std::find(outputs.begin(), outputs.end(), value.array) != outputs.end();
    if (is_taken || function_.arrays[value.array].kind != nest::Array::Kind::Temp) {
      MLC_ASSIGN(value, apply("Identity", value, {}, "ai.onnx"));
    }
    function_.outputs.push_back(value.array);
    function_.arrays[value.array].name = pipeline_.value(id).name;
    return ok();
  }

  lang::Call call_of(const std::string& name, Attributes attributes, const std::string& domain) const {
    lang::Call call;
    call.domain = domain;
    call.name = name;
    call.opset = domain == "ai.onnx" ? 13 : 1;
    call.attributes = std::move(attributes);
    call.source = "step '" + step_->op + "'";
    return call;
  }

  // One operator of one result.
  Result<lang::Value> apply(const std::string& name, const lang::Value& in, Attributes attributes, const std::string& domain = "mlc.pipeline") {
    lang::Call call = call_of(name, std::move(attributes), domain);
    call.inputs = {in};
    MLC_ASSIGN(const std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    return out[0];
  }

  const lang::Value& in() const { return values_.at(step_->in.at(0)); }
  Status set(Result<lang::Value> out) {
    MLC_ASSIGN(values_[step_->out.at(0)], std::move(out));
    return ok();
  }
  const Picture* picture() const {
    const auto& known = pipeline_.value(step_->in.at(0)).picture;
    return known ? &*known : nullptr;
  }

  Status expand(const Resize& s) {
    return set(apply(resize_operator(s.like), in(), {{"fit", fit_name(s.fit)}, {"height", s.height}, {"width", s.width}, {"size", s.size},
                                                     {"round", round_name(s.round)}, {"kernel", kernel_name(s.kernel)}}));
  }
  Status expand(const Letterbox& s) {
    MLC_ASSIGN(const lang::Value inner, apply(resize_operator(s.like), in(), {{"fit", std::string(s.upscale ? "grown" : "inside")}, {"height", s.height},
                                                                              {"width", s.width}, {"kernel", kernel_name(s.kernel)}}));
    return set(apply("Centered", inner, {{"height", s.height}, {"width", s.width}, {"value", s.value}}));
  }
  Status expand(const Crop& s) {
    if (s.centered) return set(apply("CropCenter", in(), {{"height", s.height}, {"width", s.width}, {"round", round_name(s.round)}}));
    return set(apply("Crop", in(), {{"top", s.top}, {"left", s.left}, {"height", s.height}, {"width", s.width}}));
  }
  Status expand(const Pad& s) {
    return set(apply("Pad", in(), {{"top", s.top}, {"bottom", s.bottom}, {"left", s.left}, {"right", s.right}, {"multiple", s.multiple},
                                   {"mode", mode_name(s.mode)}, {"value", s.value}}));
  }
  Status expand(const Flip& s) { return set(apply("Flip", in(), {{"horizontal", flag(s.axis == Axis::Horizontal)}})); }
  Status expand(const Rotate90& s) {
    if (step_->in.size() > 1) return set(turned_where());
    if (s.turns == 2) return set(apply("HalfTurn", in(), {}));
    return set(apply("QuarterTurn", in(), {{"left", flag(s.turns == 1)}}));
  }
  // Turned where the one element of the second input is true.
  Result<lang::Value> turned_where() {
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
  Status expand(const ConvertColor& s) {
    if (s.from == s.to) return set(in());
    if (picture() && picture()->alpha)
      return Status(Code::Unsupported, 5008, "step 'color': pictures with an alpha channel are not compiled; decode with \"alpha\": \"drop\" or \"over\"");
    if (s.to == Color::Gray) return set(apply("Gray", in(), {{"first", int64_t{s.from == Color::Rgb ? 0 : 2}}, {"like", std::string(s.like == Like::Pillow ? "pillow" : "opencv")}}));
    return set(apply(s.from == Color::Gray ? "SpreadChannel" : "SwapChannels", in(), {}));
  }
  Status expand(const Normalize& s) {
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
  Status expand(const LayoutStep& s) {
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
  Result<lang::Value> transpose(const lang::Value& value, std::vector<int64_t> order) {
    return apply("Transpose", value, {{"perm", std::move(order)}}, "ai.onnx");
  }
  Status expand(const Cast& s) {
    if (is_float(s.to)) return set(apply("Cast", in(), {{"to", s.to}}, "ai.onnx"));
    return set(apply("Quantize", in(), {{"to", s.to}}));
  }
  Status expand(const Softmax& s) { return set(apply("Softmax", in(), {{"axis", s.axis}}, "ai.onnx")); }
  Status expand(const Sigmoid&) { return set(apply("Sigmoid", in(), {}, "ai.onnx")); }
  Status expand(const Argmax& s) { return set(apply("ArgMax", in(), {{"axis", s.axis}, {"keepdims", int64_t{0}}}, "ai.onnx")); }
  Status expand(const Threshold& s) { return set(apply("Threshold", in(), {{"value", s.value}, {"or_equal", flag(s.or_equal)}})); }

  // Floats [texts, tokens, columns] and which of the tokens count, [texts, tokens].
  Status expand(const Pool& s) {
    static constexpr std::pair<Pool::How, const char*> kNames[] = {
        {Pool::How::Mean, "mean"}, {Pool::How::MeanSqrtLen, "mean_sqrt_len"}, {Pool::How::WeightedMean, "weightedmean"},
        {Pool::How::First, "first"}, {Pool::How::Last, "last"}, {Pool::How::Max, "max"}};
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& entry) { return entry.first == s.how; });
    lang::Call call = call_of("Pool", {{"how", std::string(name->second)}}, "mlc.pipeline");
    call.inputs = {in(), values_.at(step_->in.at(1))};
    MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    return set(std::move(out[0]));
  }
  // What a step on boxes takes at place k: floats of so many axes, f32 where there are two of them, and `extent` along `axis`.
  struct Wanted {
    size_t rank = 0, axis = 0;
    int64_t least = 0, most = INT64_MAX;  // of that extent, where it is known
    const char* what = "";
  };
  Status need(size_t k, const Wanted& wanted) const {
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
  Status need_places(const Boxes& s) const {
    for (const ValueId id : step_->in)
      if (const ir::Expr* rows = function_.arrays[values_.at(id).array].shape[1]; rows->is_const() && rows->i != anchor_count(s))
        return Status(Code::Usage, 5009, "the cells of step 'boxes' make {}, '{}' has {}", counted(static_cast<size_t>(anchor_count(s)), "box", "boxes"),
                      pipeline_.value(id).name, rows->i)
            .hint("'size' is the picture that the network saw; a level has ceil(side / stride) cells along each side");
    return ok();
  }
  static constexpr const char* kRows = "floats [1, boxes, 5 and as many as there are classes]";
  static constexpr const char* kMarks = "scores as floats [1, boxes, classes and the background]";

  Status expand(const Boxes& s) {
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
  Status expand(const Nms& s) {
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
  static Attributes fitted(const Fitted& of) {
    if (const auto* box = std::get_if<Letterbox>(&of))
      return {{"fit", std::string(box->upscale ? "grown" : "inside")}, {"height", box->height}, {"width", box->width}, {"boxed", int64_t{1}}};
    const auto& r = std::get<Resize>(of);
    return {{"fit", fit_name(r.fit)}, {"height", r.height}, {"width", r.width}, {"size", r.size}, {"round", round_name(r.round)}, {"boxed", int64_t{0}}};
  }
  Status expand(const Keypoints& s) {
    MLC_RETURN_IF_ERROR(need(0, {2, 1, s.columns, INT64_MAX, "points f32 [n, points times 'columns']"}));
    Attributes attributes{{"clip", flag(s.clip)}, {"columns", s.columns}};
    attributes.merge(fitted(s.of));
    return set(apply_two("Keypoints", in(), values_.at(step_->in.at(1)), "mlc.pipeline", std::move(attributes)));
  }
  Status expand(const Masks& s) {
    MLC_RETURN_IF_ERROR(need(0, {2, 1, 1, INT64_MAX, "coefficients f32 [n, prototypes]"}));
    MLC_RETURN_IF_ERROR(need(1, {2, 1, 6, 6, "detections f32 [n, 6]"}));
    MLC_RETURN_IF_ERROR(need(2, {4, 0, 1, 1, "prototypes as floats [1, prototypes, height, width]"}));
    lang::Call call = call_of("Masks", fitted(s.of), "mlc.pipeline");
    for (const ValueId id : step_->in) call.inputs.emplace_back(values_.at(id));
    MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    return set(std::move(out[0]));
  }
  Status expand(const Paint& s) {
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
  // A list of axes, as an input whose numbers are known.
  lang::Value axes_of(const std::vector<int64_t>& axes) {
    lang::Value value = constant(DType::I64, axes, {static_cast<int64_t>(axes.size())});
    for (const int64_t axis : axes) value.elements.push_back(ctx_.integer(axis));
    return value;
  }
  Status expand(const Unletterbox& s) {
    MLC_RETURN_IF_ERROR(need(0, {2, 1, 6, 6, "detections f32 [n, 6]"}));
    classes_[step_->out[0]] = classes_of(step_->in[0]);
    Attributes attributes{{"clip", flag(s.clip)}};
    attributes.merge(fitted(s.of));
    lang::Call call = call_of("Unletterbox", std::move(attributes), "mlc.pipeline");
    call.inputs = {in(), values_.at(step_->in.at(1))};
    MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    return set(std::move(out[0]));
  }
  Status expand(const UnitLength&) { return set(apply("UnitLength", in(), {})); }
  Status expand(const Truncate& s) {
    const auto& shape = function_.arrays[in().array].shape;
    if (!shape.empty() && shape.back()->is_const() && shape.back()->i < s.columns)
      return Status(Code::Usage, 5009, "step 'truncate' keeps {} columns, '{}' has {}", s.columns, pipeline_.value(step_->in[0]).name, shape.back()->i);
    return set(apply("FirstColumns", in(), {{"columns", s.columns}}));
  }

  Status expand(const NewAxis& s) {
    const size_t rank = function_.arrays[in().array].shape.size();
    if (s.at > static_cast<int64_t>(rank))
      return Status(Code::Usage, 5009, "step 'new_axis' is at {}, '{}' has {} axes", s.at, pipeline_.value(step_->in[0]).name, rank);
    return set(apply("NewAxis", in(), {{"at", s.at}}));
  }
  Status expand(const Column& s) {
    const auto& shape = function_.arrays[in().array].shape;
    if (shape.empty() || (shape.back()->is_const() && shape.back()->i <= s.index))
      return Status(Code::Usage, 5009, "step 'column' takes column {}, '{}' has {}", s.index, pipeline_.value(step_->in[0]).name, shape.empty() ? 0 : shape.back()->i);
    if (!shape.back()->is_const())
      function_.checks.push_back({ctx_.binary(ir::Op::Le, ctx_.integer(s.index + 1), shape.back()),
                                  "step 'column' takes column " + std::to_string(s.index) + ", and '" + pipeline_.value(step_->in[0]).name + "' has fewer"});
    return set(apply("Column", in(), {{"index", s.index}}));
  }

  Status expand(const Transpose& s) {
    const size_t rank = function_.arrays[in().array].shape.size();
    if (s.order.size() != rank)
      return Status(Code::Usage, 5009, "step 'transpose' orders {} axes, '{}' has {}", s.order.size(), pipeline_.value(step_->in[0]).name, rank);
    return set(transpose(in(), s.order));
  }

  Status expand(const Constant& s) {
    const size_t count = s.whole.size() + s.real.size();
    const std::vector<int64_t> shape = s.is_list ? std::vector<int64_t>{static_cast<int64_t>(count)} : std::vector<int64_t>{};
    switch (s.dtype) {
      case DType::I64: return set(constant(s.dtype, s.whole, shape));
      case DType::I32: return set(constant(s.dtype, std::vector<int32_t>(s.whole.begin(), s.whole.end()), shape));
      case DType::F64: return set(constant(s.dtype, s.real, shape));
      default: return set(constant(s.dtype, std::vector<float>(s.real.begin(), s.real.end()), shape));
    }
  }

  // Steps on sounds take f32 of so many axes.
  Status need_sound(size_t axes) const {
    const nest::Array& array = function_.arrays[in().array];
    if (array.dtype == DType::F32 && array.shape.size() >= axes) return ok();
    return Status(Code::Usage, 5009, "step '{}' takes f32 with {} axes or more, '{}' is {} with {}", step_->op, axes,
                  pipeline_.value(step_->in[0]).name, name_of(array.dtype), array.shape.size())
        .hint("decode_audio gives f32, dtype makes it");
  }
  // The other one, k, has so many axes.
  Status need_as(size_t k, size_t axes) const {
    const nest::Array& array = function_.arrays[values_.at(step_->in.at(k)).array];
    if (array.dtype == DType::F32 && array.shape.size() == axes) return ok();
    return Status(Code::Usage, 5009, "step '{}' takes f32 with {} axes beside '{}', '{}' is {} with {}", step_->op, axes, pipeline_.value(step_->in[0]).name,
                  pipeline_.value(step_->in[k]).name, name_of(array.dtype), array.shape.size());
  }
  // The extent of the last axis, which is not the run's to decide.
  Result<int64_t> row_length() const {
    const ir::Expr* extent = function_.arrays[in().array].shape.back();
    if (extent->is_const() && extent->i > 0) return extent->i;
    return Status(Code::Usage, 5009, "step '{}' takes rows of a length that is known, and the run decides that of '{}'", step_->op,
                  pipeline_.value(step_->in[0]).name)
        .hint("frame makes such rows");
  }
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
  lang::Value table(const std::vector<double>& values, const std::vector<int64_t>& shape) {
    return constant(DType::F32, std::vector<float>(values.begin(), values.end()), shape);
  }
  Result<lang::Value> apply_two(const std::string& name, const lang::Value& first, const lang::Value& second, const std::string& domain,
                                Attributes attributes = {}) {
    lang::Call call = call_of(name, std::move(attributes), domain);
    if (domain == "ai.onnx") call.opset = 17;
    call.inputs = {first, second};
    MLC_ASSIGN(const std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    return out[0];
  }

  Status expand(const Fit& s) {
    MLC_RETURN_IF_ERROR(need_sound(1));
    return set(apply("Fit", in(), {{"samples", s.samples}}));
  }
  Status expand(const Resample& s) {
    MLC_RETURN_IF_ERROR(need_sound(1));
    if (s.from == s.to) return set(in());
    const ResampleTaps filter = resample_taps(s);
    return set(apply_two("Resample", in(), table(filter.taps, {s.to, filter.count}), "mlc.pipeline",
                         {{"from", s.from}, {"before", filter.before}, {"length", std::string(s.like == Resample::Like::Torchaudio ? "rounded" : "exact")}}));
  }
  Status expand(const Frame& s) {
    MLC_RETURN_IF_ERROR(need_sound(1));
    static constexpr const char* kEdges[] = {"none", "zeros", "reflect"};
    static constexpr const char* kEnds[] = {"drop", "pad", "drop_whole"};
    const ir::Expr* samples = function_.arrays[in().array].shape.back();
    if (samples->is_const() && samples->i < least_samples(s))
      return Status(Code::Usage, 5009, "step 'frame' needs {} samples, '{}' has {}", least_samples(s), pipeline_.value(step_->in[0]).name, samples->i);
    return set(apply("Frame", in(), {{"length", s.length}, {"hop", s.hop}, {"edge", std::string(kEdges[static_cast<size_t>(s.edge)])},
                                     {"last", std::string(kEnds[static_cast<size_t>(s.end)])}}));
  }
  Status expand(const Window& s) {
    MLC_RETURN_IF_ERROR(need_sound(1));
    MLC_ASSIGN(const int64_t length, row_length());
    return set(apply_two("Windowed", in(), table(window_table(s, length), {length}), "mlc.pipeline"));
  }
  Status expand(const PreEmphasis& s) {
    MLC_RETURN_IF_ERROR(need_sound(1));
    return set(apply("PreEmphasis", in(), {{"factor", s.factor}}));
  }
  Result<lang::Value> fourier(const lang::Value& complex, int64_t length, Attributes attributes) {
    lang::Value n_fft = constant(DType::I64, std::vector<int64_t>{length}, {});
    n_fft.elements = {ctx_.integer(length)};
    return apply_two("DFT", complex, n_fft, "ai.onnx", std::move(attributes));
  }
  Status expand(const Stft& s) {
    MLC_RETURN_IF_ERROR(need_sound(1));
    MLC_ASSIGN(const int64_t length, row_length());
    if (length > s.n_fft)
      return Status(Code::Usage, 5009, "step 'stft' has an 'n_fft' of {}, and the rows of '{}' are longer: {}", s.n_fft,
                    pipeline_.value(step_->in[0]).name, length);
    const auto rank = static_cast<int64_t>(function_.arrays[in().array].shape.size());
    MLC_ASSIGN(const lang::Value complex, apply("NewAxis", in(), {{"at", rank}}));
    MLC_ASSIGN(const lang::Value spectrum, fourier(complex, s.n_fft, {{"axis", rank - 1}, {"onesided", int64_t{1}}}));
    if (s.power == 0) return set(spectrum);
    return set(apply("Power", spectrum, {{"power", int64_t{s.power}}}));
  }
  Status expand(const Istft& s) {
    MLC_RETURN_IF_ERROR(need_sound(2));
    const auto& shape = function_.arrays[in().array].shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const ir::Expr *parts = shape.back(), *bins = shape[shape.size() - 2];
    if (!parts->is_const() || parts->i != 2 || !bins->is_const() || bins->i != s.n_fft / 2 + 1)
      return Status(Code::Usage, 5009, "step 'istft' with an 'n_fft' of {} takes spectra [.., {}, 2], '{}' has others", s.n_fft, s.n_fft / 2 + 1,
                    pipeline_.value(step_->in[0]).name)
          .hint("stft with \"power\": \"complex\" makes such, and a program may");
    lang::Value spectrum = in();
    if (step_->in.size() > 1) {
      MLC_RETURN_IF_ERROR(need_as(1, shape.size() - 1));
      MLC_ASSIGN(spectrum, apply_two("Masked", spectrum, values_.at(step_->in[1]), "mlc.pipeline"));
    }
    MLC_ASSIGN(const lang::Value rows, fourier(spectrum, s.n_fft, {{"axis", rank - 2}, {"onesided", int64_t{1}}, {"inverse", int64_t{1}}}));
    return set(apply("Column", rows, {{"index", int64_t{0}}}));
  }
  Status expand(const OverlapAdd& s) {
    MLC_RETURN_IF_ERROR(need_sound(2));
    MLC_ASSIGN(const int64_t length, row_length());
    if (s.goes_on) return go_on(s, length);
    const std::vector<double> weights = s.has_window ? window_table(s.window, length) : std::vector<double>(static_cast<size_t>(length), 1);
    lang::Call call = call_of("OverlapAdd", {{"hop", s.hop}, {"start", s.is_centered ? length / 2 : 0}, {"divided", flag(s.has_window)}}, "mlc.pipeline");
    call.inputs = {in(), table(weights, {length})};
    if (step_->in.size() > 1) call.inputs.emplace_back(values_.at(step_->in[1]));
    MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    return set(std::move(out[0]));
  }
  Status go_on(const OverlapAdd& s, int64_t length) {
    if (s.hop >= length)
      return Status(Code::Usage, 5009, "step 'overlap_add' has a 'before', and rows of {} samples that begin {} apart do not overlap", length, s.hop)
          .hint("leave out 'before' and 'rest'");
    MLC_RETURN_IF_ERROR(need_as(1, function_.arrays[in().array].shape.size() - 1));
    const ir::Expr* before = function_.arrays[values_.at(step_->in[1]).array].shape.back();
    if (before->is_const() && before->i != length - s.hop)
      return Status(Code::Usage, 5009, "step 'overlap_add' takes a 'before' of {} samples, by which its rows overlap, '{}' has {}", length - s.hop,
                    pipeline_.value(step_->in[1]).name, before->i);
    lang::Call call = call_of("OverlapAddOn", {{"hop", s.hop}}, "mlc.pipeline");
    call.inputs = {in(), table(overlap_table(s, length), {length}), values_.at(step_->in[1])};
    call.outputs = {true, true};
    MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
    for (size_t k = 0; k < step_->out.size(); ++k) values_[step_->out[k]] = std::move(out[k]);
    return ok();
  }
  Status expand(const Mel& s) {
    MLC_RETURN_IF_ERROR(need_sound(2));
    MLC_ASSIGN(const int64_t bins, row_length());
    if (bins != s.n_fft / 2 + 1)
      return Status(Code::Usage, 5009, "step 'mel' has an 'n_fft' of {}, whose spectra have {} columns, and '{}' has {}", s.n_fft, s.n_fft / 2 + 1,
                    pipeline_.value(step_->in[0]).name, bins);
    return set(apply_two("MatMul", in(), table(mel_weights(s), {bins, s.bands}), "ai.onnx"));
  }
  Status expand(const Log& s) {
    MLC_RETURN_IF_ERROR(need_sound(s.has_range ? 2 : 1));
    static constexpr const char* kNames[] = {"ln", "log10", "db"};
    MLC_ASSIGN(lang::Value value, apply("Logarithm", in(), {{"how", std::string(kNames[static_cast<size_t>(s.how)])}, {"least", s.floor}}));
    if (s.has_range) {
      MLC_ASSIGN(value, apply("BelowPeak", value, {{"range", s.below_peak}}));
    }
    return set(value);
  }
  Status expand(const MeanVar& s) {
    MLC_RETURN_IF_ERROR(need_sound(s.over == MeanVar::Over::Row ? 1 : 2));
    static constexpr const char* kOver[] = {"row", "column", "all"};
    static constexpr const char* kDeviations[] = {"none", "population", "sample"};
    return set(apply("MeanVar", in(), {{"over", std::string(kOver[static_cast<size_t>(s.over)])},
                                       {"deviation", std::string(kDeviations[static_cast<size_t>(s.deviation)])},
                                       {"epsilon", s.epsilon}, {"in_variance", flag(s.adds_to_variance)}}));
  }

  Result<const model::Model*> program_of(const std::string& name) const {
    const auto program = programs_.find(name);
    if (program != programs_.end()) return program->second;
    std::string known;
    for (const auto& [each, model] : programs_) known += " " + each;
    return Status(Code::Usage, 5009, "step '" + step_->op + "': there is no program '" + name + "', known here:" + known);
  }

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

  Status expand(const Run& s) {
    MLC_ASSIGN(const model::Model* model, program_of(s.program));
    MLC_ASSIGN(const auto given, given_to(s));
    const std::string scope = function_.name + (++runs_ == 1 ? "" : "/" + std::to_string(runs_));
    std::vector<std::string> wanted;
    for (const auto& [name, id] : s.outputs) wanted.push_back(name);
    MLC_ASSIGN(const auto results, compile::expand_graph(ctx_, library_, *model, function_, scope, given, wanted));
    for (const auto& [name, id] : s.outputs) values_[id] = results.at(name);
    return ok();
  }

  Status expand(const Generate& s) {
    MLC_ASSIGN(const model::Model* model, program_of(s.program));
    MLC_ASSIGN(const auto given, given_to(s));
    MLC_ASSIGN(const compile::Generation generation, generation_of(s, *model));
    const std::string label = "generate" + (++runs_ == 1 ? "" : std::to_string(runs_));
    MLC_ASSIGN(const std::optional<compile::Sampling> sampling, sampling_of(s));
    return set(compile::expand_generation(ctx_, library_, *model, function_, label, given, generation, sampling));
  }
  Result<std::optional<compile::Sampling>> sampling_of(const Generate& s) const {
    if (!s.sampling) return std::optional<compile::Sampling>();
    compile::Sampling sampling{s.sampling->temperature, s.sampling->top_k, static_cast<int64_t>(std::rint(s.sampling->top_p * (1 << 20))), s.sampling->seed, {}};
    if (s.sampling->has_seed_input) {
      sampling.seed_value = values_.at(step_->in.back());
      const nest::Array& seed = function_.arrays[sampling.seed_value->array];
      const bool is_one = std::all_of(seed.shape.begin(), seed.shape.end(), [](const ir::Expr* extent) { return extent->is_const() && extent->i == 1; });
      if (!is_one || (seed.dtype != DType::I64 && seed.dtype != DType::I32))
        return Status(Code::Usage, 5009, "step 'generate' takes a 'seed' of one i64 or i32, '{}' is something else", pipeline_.value(step_->in.back()).name);
    }
    return std::optional(sampling);
  }

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

}  // namespace

namespace {

// What a step on the host gives of arrays that are known: the rows of all items, or a batch of them.
void know_results(const Step& step, ExpandedPipeline& all, const Pipeline& p) {
  Known& known = all.known[&p];
  if (const auto* batch = std::get_if<Batch>(&step.what)) {
    const auto item = known.find(step.in[0]);
    if (item == known.end() || item->second.shape.empty()) return;
    KnownArray array = item->second;
    array.shape[0] = batch->most == 1 ? std::optional<int64_t>(1) : std::nullopt;
    known[step.out[0]] = std::move(array);
  }
  if (const auto* bytes = std::get_if<FileBytes>(&step.what)) known[step.out[0]] = {DType::I32, {bytes->length()}};
  if (const auto* tokenize = std::get_if<Tokenize>(&step.what))
    for (size_t k = 0; k < step.out.size(); ++k) {
      if (tokenize->parts[k] == Tokenize::Part::Texts) known[step.out[k]] = {DType::I64, {std::nullopt}};
      if (tokenize->parts[k] == Tokenize::Part::Offsets) known[step.out[k]] = {DType::I64, {std::nullopt, std::nullopt, 2}};
    }
  if (std::holds_alternative<JoinWindows>(step.what)) {
    const auto rows = known.find(step.in[0]);
    if (rows == known.end() || rows->second.shape.empty()) return;
    KnownArray array = rows->second;
    array.shape[0] = std::nullopt;
    known[step.out[0]] = std::move(array);
  }
  if (std::holds_alternative<TextBoxes>(step.what)) {
    known[step.out[0]] = {DType::F32, {std::nullopt, 4, 2}};
    if (step.out.size() > 1) known[step.out[1]] = {DType::F32, {std::nullopt}};
  }
  if (const auto* each = std::get_if<ForEach>(&step.what))
    for (size_t k = 0; k < step.out.size(); ++k) {
      const auto& inner = all.known[each->body.get()];
      const auto item = inner.find(each->results[k]);
      if (item == inner.end() || item->second.shape.empty()) continue;
      KnownArray array = item->second;
      array.shape[0] = std::nullopt;
      known[step.out[k]] = std::move(array);
    }
}

// What a run gives is what the next one takes. Extents that the run decides are compared there.
Status check_carried(const Pipeline& p, const Known& known) {
  const auto shown = [](const KnownArray& array) {
    std::string text = std::string(name_of(array.dtype)) + "[";
    for (size_t axis = 0; axis < array.shape.size(); ++axis) text += (axis ? "," : "") + (array.shape[axis] ? std::to_string(*array.shape[axis]) : "?");
    return text + "]";
  };
  Status problems;
  for (const Stream::Carried& carried : p.stream->carry) {
    const auto to = known.find(carried.value), from = known.find(carried.from);
    if (to == known.end() || from == known.end()) continue;
    bool fits = to->second.dtype == from->second.dtype && to->second.shape.size() == from->second.shape.size();
    for (size_t axis = 0; fits && axis < to->second.shape.size(); ++axis)
      fits = from->second.shape[axis].value_or(*to->second.shape[axis]) == *to->second.shape[axis];
    if (fits) continue;
    add_problem(problems, Status(Code::Usage, 5009, place_of(p, carried.where) + "the stream carries '" + p.value(carried.value).name + "', which is " +
        shown(to->second) + ", and '" +
                                                        p.value(carried.from).name + "' is " + shown(from->second)));
  }
  return problems;
}

}  // namespace

// Recursion: bodies have none of their own.
Result<ExpandedPipeline> expand_pipeline(ir::Context& ctx, const lang::Library& library, const Models& programs, const Pipeline& pipeline) {
  ExpandedPipeline all;
  for (const Section& section : sections(pipeline)) {
    if (section.is_array) {
      MLC_ASSIGN(nest::Function function, Expander(ctx, library, programs, pipeline, section, all.known[&pipeline]).run());
      all.functions.push_back(std::move(function));
      continue;
    }
    for (const uint32_t k : section.steps) {
      const Step& step = pipeline.steps[k];
      if (const auto* each = std::get_if<ForEach>(&step.what)) {
        MLC_ASSIGN(ExpandedPipeline body, expand_pipeline(ctx, library, programs, *each->body));
        for (nest::Function& function : body.functions) all.functions.push_back(std::move(function));
        all.known.merge(body.known);
      }
      know_results(step, all, pipeline);
    }
  }
  if (pipeline.stream) MLC_RETURN_IF_ERROR(check_carried(pipeline, all.known[&pipeline]));
  return all;
}

}  // namespace mlc::pipeline
