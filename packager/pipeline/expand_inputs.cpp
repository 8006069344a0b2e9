// Inputs and outputs of a section: pictures, sounds, arrays and texts that the caller or an earlier section gives.
#include <algorithm>

#include "base/counted.h"
#include "packager/nest/text/names.h"
#include "packager/pipeline/section_expander.h"

namespace mlc::pipeline {

Status SectionExpander::add_input(ValueId id) {
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

const Stream::Carried* SectionExpander::carried_of(ValueId id) const {
  if (!pipeline_.stream) return nullptr;
  const auto& all = pipeline_.stream->carry;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Stream::Carried& c) { return c.value == id; });
  return found == all.end() ? nullptr : &*found;
}

// What the first run of a stream begins with is zeros: all extents are known.
Status SectionExpander::add_carried(ValueId id, const Stream::Carried& carried) {
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
Status SectionExpander::add_known(ValueId id, nest::Array array) {
  KnownArray& known = known_[id];
  known.dtype = array.dtype;
  for (const ir::Expr* extent : array.shape) known.shape.push_back(extent_of(extent));
  return add_input_array(id, std::move(array));
}

// The seed of a `generate` of this section.
bool SectionExpander::is_seed(ValueId id) const {
  return std::any_of(section_.steps.begin(), section_.steps.end(), [&](uint32_t k) {
    const Step& step = pipeline_.steps[k];
    const auto* generate = std::get_if<Generate>(&step.what);
    return generate && generate->sampling && generate->sampling->has_seed_input && step.in.back() == id;
  });
}

// "before" of an `overlap_add` of this section.
bool SectionExpander::takes_rest(ValueId id) const {
  return std::any_of(section_.steps.begin(), section_.steps.end(), [&](uint32_t k) {
    const Step& step = pipeline_.steps[k];
    const auto* add = std::get_if<OverlapAdd>(&step.what);
    return add && add->goes_on && step.in.size() > 1 && step.in[1] == id;
  });
}

Status SectionExpander::add_rest(ValueId id, const Stream::Carried& carried, const std::string& place) {
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

bool SectionExpander::keeps_channels(ValueId id) const {
  return std::any_of(pipeline_.steps.begin(), pipeline_.steps.end(), [&](const Step& s) {
    const auto* decode = std::get_if<DecodeAudio>(&s.what);
    return decode && s.out[0] == id && decode->channels == Channels::Keep;
  });
}

// A symbol keeps the bounds that it had first: what has others under the same name, in another pipeline, is called after its program too.
const ir::Expr* SectionExpander::free_extent(const std::string& name, int64_t least, int64_t most) {
  const ir::Sym* sym = ctx_.declare_sym(name, least, most);
  if (sym->lo != least || sym->hi != most) sym = ctx_.declare_sym(function_.name + ":" + name, least, most);
  return ctx_.sym(sym);
}

// The input of a program that takes this value, which is an array of the caller; null where none does.
const model::Port* SectionExpander::port_that_takes(ValueId id) const {
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

nest::Array SectionExpander::array_of_port(const Value& value, const model::Port& port) {
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

Status SectionExpander::add_input_array(ValueId id, nest::Array array) {
  function_.inputs.push_back(static_cast<uint32_t>(function_.arrays.size()));
  values_[id] = lang::Value{static_cast<uint32_t>(function_.arrays.size()), {}};
  function_.arrays.push_back(std::move(array));
  return ok();
}

// [texts, tokens], alike for all that one step makes. The number of texts is that of the model where that is fixed, the
// other one what the step fills up to.
std::vector<const ir::Expr*> SectionExpander::shape_of_tokens(ValueId id) {
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

// An answer is an array of its own under the name of the value, also where steps changed nothing.
Status SectionExpander::add_output(ValueId id) {
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

}  // namespace mlc::pipeline
