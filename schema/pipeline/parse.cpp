// From JSON to numbered values and steps: names, order of execution, use of values.
#include <algorithm>

#include "schema/pipeline/parse_step.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {
namespace {

constexpr size_t kMaxSteps = 1000, kMaxInputs = 1000;

class Builder {
 public:
  Builder(Pipeline& p, Problems& problems) : p_(p), problems_(problems) {}

  void build(ObjectReader& top) {
    if (const Json* v = top.required("inputs"); expect(v, Json::Kind::Object, "inputs")) read_inputs(*v);
    if (const Json* v = top.required("steps"); expect(v, Json::Kind::Array, "steps")) {
      if (v->items.empty()) problems_.add(5004, v->where, "'steps' is empty");
      if (v->items.size() > kMaxSteps)
        return problems_.add(5004, v->where,
                             std::to_string(v->items.size()) + " steps, at most " + std::to_string(kMaxSteps));
      for (const Json& step : v->items) read_step(step);
    }
    if (const Json* v = top.required("outputs"); expect(v, Json::Kind::Array, "outputs")) read_outputs(*v);
    if (const Json* v = top.optional("stream")) problems_.add(5007, v->where, "'stream' is not in this version");
    check_use();
  }

 private:
  bool expect(const Json* v, Json::Kind kind, const char* key) {
    if (!v) return false;
    if (v->is(kind)) return true;
    problems_.add(5004, v->where,
                  "'" + std::string(key) + "' is " + std::string(kind_name(v->kind)) + ", expected " +
                      std::string(kind_name(kind)));
    return false;
  }

  ValueId add_value(Value v, Position where) {
    for (const Value& other : p_.values)
      if (other.name == v.name) problems_.add(5005, where, "'" + v.name + "' is the name of an earlier value");
    p_.values.push_back(std::move(v));
    declared_.push_back(where);
    used_.push_back(false);
    return static_cast<ValueId>(p_.values.size() - 1);
  }

  std::optional<ValueId> use(std::string_view name, Position where) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < p_.values.size(); ++i) {
      if (p_.values[i].name == name) {
        used_[i] = true;
        return static_cast<ValueId>(i);
      }
      names.push_back(p_.values[i].name);
    }
    auto near = nearest_name(name, names);
    problems_.add(5005, where,
                  "no value '" + std::string(name) + "' before this" +
                      (near.empty() ? "" : ", did you mean '" + std::string(near) + "'?"));
    return std::nullopt;
  }

  void read_inputs(const Json& inputs) {
    if (inputs.members.empty() || inputs.members.size() > kMaxInputs)
      return problems_.add(
          5004, inputs.where,
          std::to_string(inputs.members.size()) + " inputs, expected 1 to " + std::to_string(kMaxInputs));
    for (const auto& m : inputs.members) {
      Value v;
      v.name = m.key;
      if (m.key.empty()) problems_.add(5004, m.where, "an input without a name");
      if (expect(&m.value, Json::Kind::Object, m.key.c_str())) {
        ObjectReader r(m.value, "input '" + m.key + "'", problems_);
        if (const Json* accept = r.required("accept"); expect(accept, Json::Kind::Array, "accept"))
          for (const Json& type : accept->items)
            v.accept.push_back(std::string(r.choice<std::string_view>(&type, "accept",
                                                                      {{"image/jpeg", "image/jpeg"},
                                                                       {"image/png", "image/png"},
                                                                       {"image/bmp", "image/bmp"},
                                                                       {"image/jp2", "image/jp2"},
                                                                       {"image/tiff", "image/tiff"},
                                                                       {"image/webp", "image/webp"},
                                                                       {"image/x-portable-anymap", "image/x-portable-anymap"},
                                                                       {"audio/wav", "audio/wav"},
                                                                       {"application/x-npy", "application/x-npy"}})));
        r.finish();
        if (r.has("accept") && v.accept.empty())
          problems_.add(5004, m.value.where, "input '" + m.key + "' accepts nothing");
      }
      size_t arrays = static_cast<size_t>(std::count(v.accept.begin(), v.accept.end(), "application/x-npy"));
      if (arrays && arrays != v.accept.size())
        problems_.add(5004, m.value.where, "input '" + m.key + "' is both an array and a file to decode");
      v.kind = arrays ? ValueKind::Tensor : ValueKind::Media;
      p_.inputs.push_back(add_value(std::move(v), m.where));
    }
  }

  void read_step(const Json& json) {
    size_t index = count_++;
    if (!json.is(Json::Kind::Object))
      return problems_.add(
          5004, json.where,
          "steps[" + std::to_string(index) + "] is " + std::string(kind_name(json.kind)) + ", expected an object");
    std::string op;
    for (const auto& m : json.members)
      if (m.key == "op") op = m.value.string;
    ObjectReader r(json, op.empty() ? "steps[" + std::to_string(index) + "]" : "step '" + op + "'", problems_);
    const Json* named = r.required("op");
    r.string(named, "op");
    const StepKind* kind = step_kind(op);
    if (!kind) {
      if (op.empty()) return r.finish();
      auto near = nearest_name(op, step_names());
      problems_.add(is_planned_step(op) ? 5007 : 5001, named->where,
                    is_planned_step(op) ? "step '" + op + "' is not in this version"
                                        : "unknown step '" + op.substr(0, 60) + "'" +
                                              (near.empty() ? "" : ", did you mean '" + std::string(near) + "'?"));
      previous_.reset();
      broken_ = true;
      return;
    }
    Step step;
    step.op = op;
    step.where = json.where;
    if (kind->form == InputForm::Named)
      read_run(r, *kind, std::move(step));
    else
      read_plain(r, *kind, std::move(step), index);
  }

  // One value in, one out.
  void read_plain(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    std::string auto_name = "steps[" + std::to_string(index) + "]";
    const Json* in = r.optional("in");
    std::optional<ValueId> from;
    if (!in) {
      from = previous_;
      if (from)
        used_[*from] = true;
      else if (!broken_)
        problems_.add(5005, step.where,
                      "step '" + step.op + "' has no 'in', and no step with one result stands before it");
    } else if (in->is(Json::Kind::Object) && kind.form == InputForm::Tensor && in->members.size() == 1) {
      from = read_inline(*in, auto_name);
    } else {
      std::string name = r.string(in, "in");
      if (!name.empty()) from = use(name, in->where);
    }
    Value unknown, out;
    unknown.picture = Picture{};  // lets the attributes be checked where the input is not known
    const Value input = from ? p_.values[*from] : unknown;
    if (from) check_form(kind.form, input, step);
    Value checked = input;
    if (kind.form == InputForm::Picture && !checked.picture) checked.picture = Picture{};
    step.what = kind.parse(r, checked, out);
    const Json* named = r.optional("out");
    out.name = named ? r.string(named, "out") : auto_name;
    r.finish();
    ValueId to = add_value(std::move(out), named ? named->where : step.where);
    previous_ = to;
    if (from) step.in = {*from};
    step.out = {to};
    p_.steps.push_back(std::move(step));
  }

  // "in": {"softmax": "logits"}: the short form of a step of its own over the last axis.
  std::optional<ValueId> read_inline(const Json& in, const std::string& auto_name) {
    const auto& m = in.members[0];
    bool softmax = m.key == "softmax";
    if (!softmax && m.key != "sigmoid") {
      problems_.add(5001, m.where,
                    "'" + m.key.substr(0, 60) + "' cannot stand inside 'in', only softmax and sigmoid can");
      return std::nullopt;
    }
    if (!m.value.is(Json::Kind::String)) {
      problems_.add(5004, m.value.where, "'" + m.key + "' inside 'in' is not the name of a value");
      return std::nullopt;
    }
    auto from = use(m.value.string, m.value.where);
    if (!from) return std::nullopt;
    Step step;
    step.op = m.key;
    step.where = m.where;
    step.what = softmax ? Op(Softmax{-1}) : Op(Sigmoid{});
    check_form(InputForm::Tensor, p_.values[*from], step);
    Value out;
    out.name = auto_name + ".in";
    ValueId to = add_value(std::move(out), m.where);
    used_[to] = true;
    step.in = {*from};
    step.out = {to};
    p_.steps.push_back(std::move(step));
    return to;
  }

  void read_run(ObjectReader& r, const StepKind& kind, Step step) {
    Value none;
    step.what = kind.parse(r, none, none);
    Run& run = std::get<Run>(step.what);
    if (const Json* in = r.required("in"); expect(in, Json::Kind::Object, "in"))
      for (const auto& m : in->members) {
        if (!m.value.is(Json::Kind::String)) {
          problems_.add(5004, m.value.where, "'" + m.key + "' inside 'in' is not the name of a value");
          continue;
        }
        auto from = use(m.value.string, m.value.where);
        if (!from) continue;
        check_form(InputForm::Tensor, p_.values[*from], step);
        step.in.push_back(*from);
        run.inputs.emplace_back(m.key, *from);
      }
    if (const Json* out = r.required("out"); expect(out, Json::Kind::Object, "out"))
      for (const auto& m : out->members) {
        if (!m.value.is(Json::Kind::String) || m.value.string.empty()) {
          problems_.add(5004, m.value.where, "'" + m.key + "' inside 'out' is not a name");
          continue;
        }
        Value v;
        v.name = m.value.string;
        ValueId to = add_value(std::move(v), m.value.where);
        step.out.push_back(to);
        run.outputs.emplace_back(m.key, to);
      }
    r.finish();
    if (step.out.empty()) problems_.add(5005, step.where, "step 'run' names no output");
    previous_ = step.out.size() == 1 ? std::optional(step.out[0]) : std::nullopt;
    p_.steps.push_back(std::move(step));
  }

  void check_form(InputForm form, const Value& in, const Step& step) {
    auto refuse = [&](std::string_view expected) {
      std::string_view is = in.kind == ValueKind::Media     ? "a file"
                            : in.kind == ValueKind::Classes ? "a list of classes"
                            : in.kind == ValueKind::Text    ? "text"
                            : in.picture                    ? "a picture in another layout"
                                                            : "an array that is no picture";
      problems_.add(
          5005, step.where,
          "step '" + step.op + "' takes " + std::string(expected) + ", '" + in.name + "' is " + std::string(is));
    };
    switch (form) {
      case InputForm::Media:
        if (in.kind != ValueKind::Media) return refuse("a file");
        for (const auto& type : in.accept)
          if (type.starts_with("image/") != (step.op == "decode_image"))
            problems_.add(5005, step.where,
                          "step '" + step.op + "' cannot decode " + type + ", which '" + in.name + "' accepts");
        return;
      case InputForm::Picture:
        if (!in.picture || in.picture->layout != PixelLayout::Hwc) refuse("a picture [h, w, c]");
        return;
      case InputForm::Tensor:
      case InputForm::Named:
        if (in.kind != ValueKind::Tensor) refuse("an array");
        return;
    }
  }

  void read_outputs(const Json& outputs) {
    if (outputs.items.empty()) problems_.add(5004, outputs.where, "'outputs' is empty");
    for (const Json& o : outputs.items) {
      if (!o.is(Json::Kind::String)) {
        problems_.add(5004, o.where,
                      "'outputs' holds " + std::string(kind_name(o.kind)) + ", expected names of values");
        continue;
      }
      auto id = use(o.string, o.where);
      if (!id) continue;
      if (p_.values[*id].kind == ValueKind::Media)
        problems_.add(5005, o.where, "'" + o.string + "' is an input file, not a result");
      if (std::find(p_.outputs.begin(), p_.outputs.end(), *id) != p_.outputs.end())
        problems_.add(5005, o.where, "'" + o.string + "' twice in 'outputs'");
      p_.outputs.push_back(*id);
    }
  }

  void check_use() {
    if (problems_.any()) return;  // a step that could not be read uses nothing
    for (size_t i = 0; i < p_.values.size(); ++i)
      if (!used_[i])
        problems_.add(5005, declared_[i], "'" + p_.values[i].name + "' is used by no step and is no output");
    // What leaves a decoder goes to array steps: an answer made of it alone would need no model.
    std::vector<bool> computed(p_.values.size(), false);
    for (const Step& s : p_.steps)
      if (stage_of(s.what) != Stage::Before)
        for (ValueId id : s.out) computed[id] = true;
    auto need = [&](ValueId id, Position where) {
      if (!computed[id])
        problems_.add(5005, where, "'" + p_.values[id].name + "' passes through no array step before this");
    };
    for (const Step& s : p_.steps)
      if (stage_of(s.what) == Stage::After) need(s.in[0], s.where);
    for (ValueId id : p_.outputs) need(id, declared_[id]);
  }

  Pipeline& p_;
  Problems& problems_;
  std::vector<Position> declared_;
  std::vector<bool> used_;
  std::optional<ValueId> previous_;  // result of the step before
  size_t count_ = 0;
  bool broken_ = false;  // a step was unknown: what follows may lack its input
};

}  // namespace

Result<PipelineFile> parse(std::string_view text, std::string_view file_name) {
  MLC_ASSIGN(Json root, parse_json(text, file_name));
  Problems problems(file_name);
  if (!root.is(Json::Kind::Object)) {
    problems.add(5006, root.where, "a pipeline is an object");
    return problems.status();
  }
  PipelineFile file;
  ObjectReader top(root, "the pipeline", problems);
  top.integer(top.required("mlc_pipeline"), "mlc_pipeline", 1, 1);
  if (const Json* several = top.optional("pipelines")) {
    top.finish();
    if (!several->is(Json::Kind::Object) || several->members.empty())
      problems.add(5004, several->where, "'pipelines' is not an object of named pipelines");
    for (const auto& m : several->members) {
      file.pipelines.push_back({m.key, {}, {}, {}, {}});
      ObjectReader one(m.value, "pipeline '" + m.key + "'", problems);
      if (!m.value.is(Json::Kind::Object)) {
        problems.add(5004, m.value.where, "pipeline '" + m.key + "' is not an object");
        continue;
      }
      Builder(file.pipelines.back(), problems).build(one);
      one.finish();
    }
  } else {
    file.pipelines.push_back({"default", {}, {}, {}, {}});
    Builder(file.pipelines.back(), problems).build(top);
    top.finish();
  }
  if (problems.any()) return problems.status();
  return file;
}

}  // namespace mlc::pipeline
