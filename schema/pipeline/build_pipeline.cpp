// From JSON to the numbered values and steps of one pipeline: names, order of execution, use of values.
#include "schema/pipeline/build_pipeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "schema/pipeline/parse_sound.h"
#include "schema/pipeline/parse_step.h"
#include "schema/pipeline/parse_stream.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {
namespace {

using Kind = Json::Kind;

constexpr size_t kMaxGuesses = 100;  // names that are compared with a wrong one

class Builder {
 public:
  Builder(Pipeline& p, Problems& problems) : p_(p), problems_(problems) {}

  void build(ObjectReader& top) {
    if (const Json* v = top.required("inputs"); expect(v, Kind::Object, "inputs")) read_inputs(*v);
    std::optional<StreamText> stream;
    if (const Json* v = top.optional("stream"); v && expect(v, Kind::Object, "stream")) {
      stream = read_stream(*v, problems_);
      for (const StreamText::Carried& carried : stream->carry) add_value({carried.value.text}, carried.value.where);
    }
    if (!read_steps(top)) return;
    if (const Json* v = top.required("outputs"); expect(v, Kind::Array, "outputs")) read_outputs(*v);
    if (stream) set_stream(*stream);
    check_use();
    check_forms();
    check_assets();
    check_groups();
  }

  // The body of the for_each that `each` reads: what it takes has been added, what it gives is the keys of `out`.
  void build_body(ObjectReader& each, const Json* out) {
    if (!read_steps(each)) return;
    if (expect(out, Kind::Object, "out")) read_results(*out);
    check_use();
    check_batches();
  }
  void add_item(Value v, Position where) { p_.inputs.push_back(add_value(std::move(v), where)); }

 private:
  // False: there are so many that none is read.
  bool read_steps(ObjectReader& top) {
    const Json* v = top.required("steps");
    if (!expect(v, Kind::Array, "steps")) return true;
    if (v->size() == 0) problems_.add(5004, v->where(), "'steps' is empty");
    if (v->size() > kMaxSteps) {
      problems_.add(5004, v->where(), std::to_string(v->size()) + " steps, at most " + std::to_string(kMaxSteps));
      return false;
    }
    for (const Json& step : v->items()) read_step(step);
    return true;
  }

  // What the names of a stream mean, once all values are known.
  void set_stream(const StreamText& text) {
    Stream stream = text.numbers;
    const auto input = ids_.find(text.input.text);
    const bool is_input = input != ids_.end() && std::find(p_.inputs.begin(), p_.inputs.end(), input->second) != p_.inputs.end();
    if (!text.input.text.empty() && !is_input)
      problems_.add(5005, text.input.where, "the stream cuts " + quoted(text.input.text) + ", which is no input of the pipeline");
    if (is_input) cut_input(stream, input->second, text.input.where);
    std::vector<bool> is_made(p_.values.size(), false);
    for (const Step& step : p_.steps)
      for (const ValueId id : step.out) is_made[id] = !is_decoder(step.what);
    for (const StreamText::Carried& carried : text.carry) {
      const auto from = use(carried.from.text, carried.from.where);
      if (!from) continue;
      if (!is_made[*from] || p_.values[*from].kind != ValueKind::Tensor)
        problems_.add(5005, carried.from.where, "the stream carries " + quoted(carried.from.text) + ", which is no array that a step computes");
      stream.carry.push_back({ids_.find(carried.value.text)->second, *from, carried.shape, carried.value.where});
    }
    for (const ValueId id : p_.outputs)
      if (const ValueKind kind = p_.values[id].kind; kind == ValueKind::Boxes || kind == ValueKind::Image)
        problems_.add(5007, text.where, "a stream whose answer " + quoted(p_.values[id].name) + " is " + (kind == ValueKind::Boxes ? "boxes" : "a file") +
            " is not in this version");
    p_.stream = std::move(stream);
  }

  // The input is a sound, all of it goes through one decoder, and there is no other.
  void cut_input(Stream& stream, ValueId input, Position where) {
    stream.input = input;
    const std::string name = quoted(p_.values[input].name);
    for (const ValueId id : p_.inputs)
      if (const ValueKind kind = p_.values[id].kind; id != input && kind != ValueKind::Tensor && kind != ValueKind::Strings)
        problems_.add(5007, where, "a pipeline with a stream that has a file beside " + name + " is not in this version, arrays and texts may be");
    size_t readers = 0;
    const DecodeAudio* audio = nullptr;
    for (const Step& step : p_.steps) {
      if (std::find(step.in.begin(), step.in.end(), input) == step.in.end()) continue;
      ++readers;
      audio = std::get_if<DecodeAudio>(&step.what);
      if (audio) stream.sound = step.out[0], stream.rate = audio->rate;
    }
    if (readers != 1 || !audio) problems_.add(5005, where, "the stream cuts " + name + ", which one step 'decode_audio' must take and no other");
    else if (audio->channels == Channels::Keep) problems_.add(5007, where, "a stream of several channels (\"keep\") is not in this version");
  }

  bool expect(const Json* v, Kind kind, std::string_view key) {
    if (!v) return false;
    if (v->is(kind)) return true;
    problems_.add(5004, v->where(),
                  quoted(key) + " is " + std::string(name_of(v->kind())) + ", expected " + std::string(name_of(kind)));
    return false;
  }

  ValueId add_value(Value v, Position where) {
    const auto id = static_cast<ValueId>(p_.values.size());
    if (!ids_.emplace(v.name, id).second)
      problems_.add(5005, where, quoted(v.name) + " is the name of an earlier value");
    p_.values.push_back(std::move(v));
    declared_.push_back(where);
    used_.push_back(false);
    return id;
  }

  std::optional<ValueId> use(std::string_view name, Position where) {
    if (const auto known = ids_.find(name); known != ids_.end()) {
      used_[known->second] = true;
      return known->second;
    }
    std::vector<std::string_view> names;  // the latest: what is written next to each other is mixed up
    for (size_t i = p_.values.size(); i-- > 0 && names.size() < kMaxGuesses;) names.push_back(p_.values[i].name);
    problems_.add(5005, where, "no value " + quoted(name) + " before this" + problems_.did_you_mean(name, names));
    return std::nullopt;
  }

  void read_inputs(const Json& inputs) {
    if (inputs.size() == 0 || inputs.size() > kMaxInputs)
      return problems_.add(5004, inputs.where(),
                           std::to_string(inputs.size()) + " inputs, expected 1 to " + std::to_string(kMaxInputs));
    for (const auto& [key, value] : inputs.members()) {
      Value v;
      v.name = key.text();
      const std::string what = "input " + quoted(v.name);
      if (v.name.empty()) problems_.add(5004, key.where(), "an input without a name");
      if (expect(&value, Kind::Object, v.name)) {
        ObjectReader r(value, what, problems_);
        if (const Json* accept = r.required("accept"); expect(accept, Kind::Array, "accept"))
          for (const Json& type : accept->items()) read_accepted(r, type, v.accept);
        r.finish();
        if (r.has("accept") && v.accept.empty())
          problems_.add(5004, value.where(), what + " accepts nothing");
      }
      const auto accepts = [&](std::string_view type) { return std::find(v.accept.begin(), v.accept.end(), type) != v.accept.end(); };
      const bool is_array = accepts("application/x-npy"), is_text = accepts("text/plain"), is_any = accepts("application/octet-stream");
      if ((is_array || is_text || is_any) && v.accept.size() > 1)
        problems_.add(5004, value.where(), what + " is both " + (is_array ? "an array" : is_text ? "a text" : "a file of any kind") + " and a file to decode");
      v.kind = is_array ? ValueKind::Tensor : is_text ? ValueKind::Strings : is_any ? ValueKind::Bytes : ValueKind::Media;
      p_.inputs.push_back(add_value(std::move(v), key.where()));
    }
  }

  void read_accepted(ObjectReader& r, const Json& type, std::vector<std::string>& accept) {
    const auto word = r.choice<std::string_view>(&type, "accept",
                                                 {{"image/jpeg", "image/jpeg"},
                                                  {"image/png", "image/png"},
                                                  {"image/bmp", "image/bmp"},
                                                  {"image/jp2", "image/jp2"},
                                                  {"image/tiff", "image/tiff"},
                                                  {"image/webp", "image/webp"},
                                                  {"image/x-portable-anymap", "image/x-portable-anymap"},
                                                  {"audio/wav", "audio/wav"},
                                                  {"audio/flac", "audio/flac"},
                                                  {"audio/ogg", "audio/ogg"},
                                                  {"text/plain", "text/plain"},
                                                  {"application/octet-stream", "application/octet-stream"},
                                                  {"application/x-npy", "application/x-npy"}});
    if (std::find(accept.begin(), accept.end(), word) == accept.end())
      accept.emplace_back(word);
    else if (type.text() == word)
      r.wrong(type, "accept", "has " + quoted(word) + " twice");
  }

  void read_step(const Json& json) {
    size_t index = count_++;
    if (!json.is(Kind::Object))
      return problems_.add(
          5004, json.where(),
          "steps[" + std::to_string(index) + "] is " + std::string(name_of(json.kind())) + ", expected an object");
    const Json* const op_value = json.find("op");
    const std::string op(op_value ? op_value->text() : "");
    ObjectReader r(json, op.empty() ? "steps[" + std::to_string(index) + "]" : "step " + quoted(op), problems_);
    const Json* named = r.required("op");
    r.string(named, "op");
    const StepKind* kind = step_kind(op);
    if (!kind) {
      if (op.empty()) return r.finish();
      problems_.add(is_planned_step(op) ? 5007 : 5001, named->where(),
                    is_planned_step(op)
                        ? "step '" + op + "' is not in this version"
                        : "unknown step " + quoted(op) + problems_.did_you_mean(op, step_names()),
                    "steps: " + joined(step_names()));
      previous_.reset();
      broken_ = true;
      return;
    }
    Step step;
    step.op = op;
    step.where = json.where();
    if (kind->form == InputForm::Items)
      read_for_each(r, *kind, std::move(step));
    else if (kind->form == InputForm::Fed)
      read_generate(r, *kind, std::move(step), index);
    else if (kind->form == InputForm::Named)
      read_run(r, *kind, std::move(step));
    else if (kind->form == InputForm::Texts)
      read_tokenize(r, *kind, std::move(step), index);
    else if (kind->form == InputForm::Preset)
      read_log_mel(r, *kind, std::move(step), index);
    else if (kind->form == InputForm::None)
      read_constant(r, *kind, std::move(step), index);
    else if (kind->form == InputForm::Boxes)
      read_boxes(r, *kind, std::move(step), index);
    else
      read_plain(r, *kind, std::move(step), index);
  }

  std::optional<ValueId> read_in(ObjectReader& r, const StepKind& kind, const Step& step, const std::string& auto_name) {
    const Json* in = r.optional("in");
    std::optional<ValueId> from;
    if (!in) {
      from = previous_;
      if (from)
        used_[*from] = true;
      else if (!broken_)
        problems_.add(5005, step.where,
                      "step '" + step.op + "' has no 'in', and no step with one result stands before it");
    } else if (in->is(Kind::Object) && kind.form == InputForm::Tensor && in->size() == 1) {
      from = read_inline(*in, auto_name);
    } else {
      std::string name = r.string(in, "in");
      if (!name.empty()) from = use(name, in->where());
    }
    return from;
  }

  // A sound in; several steps, of which each takes the result of the one before.
  void read_log_mel(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    const std::string auto_name = "steps[" + std::to_string(index) + "]";
    std::optional<ValueId> from = read_in(r, kind, step, auto_name);
    if (from) check_form(kind.form, p_.values[*from], step);
    std::vector<sound::PresetStep> parts = sound::log_mel(r);
    const Json* named = r.optional("out");
    const std::string name = named ? r.string(named, "out") : auto_name;
    r.finish();
    for (size_t k = 0; k < parts.size(); ++k) {
      const bool is_last = k + 1 == parts.size();
      Value out;
      out.name = is_last ? name : auto_name + "." + parts[k].op;
      const ValueId to = add_value(std::move(out), named && is_last ? named->where() : step.where);
      if (!is_last) used_[to] = true;
      p_.steps.push_back({parts[k].op, step.where, from ? std::vector<ValueId>{*from} : std::vector<ValueId>{}, {to}, std::move(parts[k].what)});
      from = to;
    }
    previous_ = from;
  }

  void read_constant(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    Value out;
    step.what = kind.parse(r, out, out);
    const Json* named = r.optional("out");
    out.name = named ? r.string(named, "out") : "steps[" + std::to_string(index) + "]";
    r.finish();
    step.out = {add_value(std::move(out), named ? named->where() : step.where)};
    previous_ = step.out[0];
    p_.steps.push_back(std::move(step));
  }

  // One value in, one out.
  void read_plain(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    std::string auto_name = "steps[" + std::to_string(index) + "]";
    const std::optional<ValueId> from = read_in(r, kind, step, auto_name);
    Value unknown, out;
    unknown.picture = Picture{};  // lets the attributes be checked where the input is not known
    const Value input = from ? p_.values[*from] : unknown;
    if (from) check_form(kind.form, input, step);
    Value checked = input;
    if (kind.form == InputForm::Picture && !checked.picture) checked.picture = Picture{};
    step.what = kind.parse(r, checked, out);
    const std::vector<ValueId> others = read_others(r, kind, step);
    if (std::holds_alternative<Batch>(step.what) && !p_.is_body)
      problems_.add(5005, step.where, "step 'batch' puts items together, and stands in the steps of a 'for_each' only");
    if (from) step.in = {*from};
    step.in.insert(step.in.end(), others.begin(), others.end());
    if (const auto origin = read_origin(r, step)) step.in.push_back(*origin);
    const Json* named = r.optional("out");
    if (named && named->is(Kind::Object) && !kind.results[0].empty()) {
      read_parts(*named, kind, step);
    } else {
      out.name = named ? r.string(named, "out") : auto_name;
      step.out = {add_value(std::move(out), named ? named->where() : step.where)};
    }
    r.finish();
    previous_ = step.out.size() == 1 ? std::optional(step.out[0]) : std::nullopt;
    p_.steps.push_back(std::move(step));
  }

  // "of" names what a resize or a letterbox has made: the answer is the picture that it took.
  std::optional<ValueId> read_origin(ObjectReader& r, Step& step) {
    const auto fitted = [&]() -> Fitted* {
      if (auto* s = std::get_if<Unletterbox>(&step.what)) return &s->of;
      if (auto* s = std::get_if<Keypoints>(&step.what)) return &s->of;
      if (auto* s = std::get_if<Masks>(&step.what)) return &s->of;
      auto* s = std::get_if<Paint>(&step.what);
      return s ? &s->of : nullptr;
    };
    Fitted* back = fitted();
    const Json* of = back ? r.required("of") : nullptr;
    const std::string name = r.string(of, "of");
    const auto made = name.empty() ? std::nullopt : use(name, of->where());
    if (!made) return std::nullopt;
    for (const Step& maker : p_.steps) {
      if (maker.out.empty() || maker.out[0] != *made || maker.in.empty()) continue;
      if (const auto* resize = std::get_if<Resize>(&maker.what)) *back = *resize;
      else if (const auto* letterbox = std::get_if<Letterbox>(&maker.what)) *back = *letterbox;
      else continue;
      return maker.in[0];
    }
    r.wrong(*of, "of", "is " + quoted(name) + ", which no 'resize' and no 'letterbox' makes");
    return std::nullopt;
  }

  // "in": one array, or {"boxes": array, "scores": array}; "out" likewise, whichever the step makes.
  void read_boxes(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    Value none;
    step.what = kind.parse(r, none, none);
    const auto* boxes = std::get_if<Boxes>(&step.what);
    const Json* in = r.optional("in");
    const bool may_be_two = boxes && (boxes->form == Boxes::Form::Anchors || boxes->form == Boxes::Form::Dfl);
    read_pair_or_one(r, /*pair=*/!boxes || boxes->form == Boxes::Form::Ssd || (may_be_two && in && in->is(Kind::Object)), step);
    const std::string auto_name = "steps[" + std::to_string(index) + "]";
    const Json* named = r.optional("out");
    if (!boxes && step.in.size() < 3) {
      step.out.push_back(add_value({named ? r.string(named, "out") : auto_name}, named ? named->where() : step.where));
    } else if (const Json* out = r.required("out"); expect(out, Kind::Object, "out")) {
      ObjectReader names(*out, "'out' of " + step.op, problems_);
      std::vector<const char*> keys = boxes ? std::vector{"boxes", "scores"} : std::vector{"found"};
      if (!boxes || boxes->extra > 0) keys.push_back("extra");
      for (const char* key : keys) {
        const Json* name = names.required(key);
        if (std::string text = names.string(name, key); !text.empty()) step.out.push_back(add_value({std::move(text)}, name->where()));
      }
      names.finish();
    }
    r.finish();
    previous_ = step.out.size() == 1 ? std::optional(step.out[0]) : std::nullopt;
    p_.steps.push_back(std::move(step));
  }

  void read_pair_or_one(ObjectReader& r, bool pair, Step& step) {
    const Json* in = r.required("in");
    const auto add = [&](ObjectReader& from, const Json* name, std::string_view key) {
      const std::string text = from.string(name, key);
      const auto id = text.empty() ? std::nullopt : use(text, name->where());
      if (!id) return;
      check_form(InputForm::Tensor, p_.values[*id], step);
      step.in.push_back(*id);
    };
    if (!pair) return add(r, in, "in");
    if (!expect(in, Kind::Object, "in")) return;
    ObjectReader both(*in, "'in' of " + step.op, problems_);
    for (const char* key : {"boxes", "scores"}) add(both, both.required(key), key);
    if (const Json* extra = std::holds_alternative<Nms>(step.what) ? both.optional("extra") : nullptr) add(both, extra, "extra");
    both.finish();
  }

  std::vector<ValueId> read_others(ObjectReader& r, const StepKind& kind, const Step& step) {
    std::vector<ValueId> ids;
    for (const OtherInput& other : kind.others) {
      if (other.key.empty()) continue;
      const Json* v = other.is_required ? r.required(other.key) : r.optional(other.key);
      const std::string name = v ? r.string(v, other.key) : "";
      if (name.empty()) continue;
      const auto id = use(name, v->where());
      if (!id) continue;
      check_form(other.form, p_.values[*id], step);
      ids.push_back(*id);
    }
    return ids;
  }

  // "out": {"corners": name, "scores": name}, the first one at least.
  void read_parts(const Json& out, const StepKind& kind, Step& step) {
    ObjectReader names(out, "'out' of " + step.op, problems_);
    for (const std::string_view key : kind.results) {
      const Json* name = key == kind.results[0] ? names.required(key) : names.optional(key);
      if (!name) continue;
      Value v;
      v.name = names.string(name, key);
      step.out.push_back(add_value(std::move(v), name->where()));
    }
    names.finish();
  }

  // "in": {"softmax": "logits"}: the short form of a step of its own over the last axis.
  std::optional<ValueId> read_inline(const Json& in, const std::string& auto_name) {
    const auto [key, value] = *in.members().begin();
    bool softmax = key.text() == "softmax";
    if (!softmax && key.text() != "sigmoid") {
      problems_.add(5001, key.where(), quoted(key.text()) + " cannot stand inside 'in', only softmax and sigmoid can");
      return std::nullopt;
    }
    if (!value.is(Kind::String)) {
      problems_.add(5004, value.where(), quoted(key.text()) + " inside 'in' is not the name of a value");
      return std::nullopt;
    }
    auto from = use(value.text(), value.where());
    if (!from) return std::nullopt;
    Step step;
    step.op = key.text();
    step.where = key.where();
    step.what = softmax ? Op(Softmax{-1}) : Op(Sigmoid{});
    check_form(InputForm::Tensor, p_.values[*from], step);
    Value out;
    out.name = auto_name + ".in";
    ValueId to = add_value(std::move(out), key.where());
    used_[to] = true;
    step.in = {*from};
    step.out = {to};
    p_.steps.push_back(std::move(step));
    return to;
  }

  // Texts, or pairs of texts, in; one to three arrays out.
  void read_tokenize(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    const Json* in = r.required("in");
    if (in && in->is(Kind::Object)) {
      ObjectReader both(*in, "'in' of " + step.op, problems_);
      for (const char* key : {"first", "second"}) add_texts(both, both.required(key), key, step);
      both.finish();
    } else if (in) {
      add_texts(r, in, "in", step);
    }
    Value none;
    step.what = kind.parse(r, none, none);
    Tokenize& what = std::get<Tokenize>(step.what);
    if (const Json* out = r.required("out"); expect(out, Kind::Object, "out")) {
      ObjectReader names(*out, "'out' of " + step.op, problems_);
      using Part = Tokenize::Part;
      for (const auto& [key, part] : {std::pair{"ids", Part::Ids}, {"mask", Part::Mask}, {"type_ids", Part::TypeIds}, {"position_ids", Part::Positions},
                                     {"texts", Part::Texts}, {"offsets", Part::Offsets}}) {
        const Json* name = names.optional(key);
        if (!name) continue;
        Value v;
        v.name = names.string(name, key);
        v.is_tokens = part != Part::Texts && part != Part::Offsets;
        step.out.push_back(add_value(std::move(v), name->where()));
        what.parts.push_back(part);
      }
      names.finish();
      if (step.out.empty()) problems_.add(5005, out->where(), "step 'tokenize' names no result: ids, mask, type_ids, position_ids, texts, offsets");
      else if (std::none_of(step.out.begin(), step.out.end(), [&](ValueId id) { return p_.values[id].is_tokens; }))
        problems_.add(5005, out->where(), "step 'tokenize' gives no tokens: name one of ids, mask, type_ids, position_ids");
    }
    r.finish();
    previous_ = step.out.size() == 1 ? std::optional(step.out[0]) : std::nullopt;
    if (what.groups) add_lengths(step, what, index);
    p_.steps.push_back(std::move(step));
  }

  // The rows' lengths, which the runtime takes and no step.
  void add_lengths(Step& step, Tokenize& what, size_t index) {
    const ValueId lengths = add_value({"steps[" + std::to_string(index) + "].lengths"}, step.where);
    used_[lengths] = true;
    step.out.push_back(lengths);
    what.parts.push_back(Tokenize::Part::Lengths);
  }

  // What takes rows that are grouped takes nothing beside them: what would its rows be?
  void check_groups() {
    if (problems_.any()) return;
    for (const Section& section : sections(p_)) {
      if (!section.lengths) continue;
      const auto tokenize = std::find_if(p_.steps.begin(), p_.steps.end(), [&](const Step& s) { return !s.out.empty() && s.out.back() == *section.lengths; });
      for (const ValueId id : section.in)
        if (!p_.values[id].is_tokens || std::find(tokenize->out.begin(), tokenize->out.end(), id) == tokenize->out.end())
          problems_.add(5005, tokenize->where, "'pad' is to \"longest_of_group\", and the program that takes the tokens takes " + quoted(p_.values[id].name) +
                                                    " beside them, which are no tokens of this step: pad to \"longest\"");
    }
  }

  void add_texts(ObjectReader& r, const Json* name, std::string_view key, Step& step) {
    const std::string text = r.string(name, key);
    if (text.empty()) return;
    const auto from = use(text, name->where());
    if (!from) return;
    check_form(InputForm::Texts, p_.values[*from], step);
    step.in.push_back(*from);
  }

  // {"name of a program": "value"}: tensors.
  std::vector<std::pair<std::string, ValueId>> read_named(const Json& in, Step& step) {
    std::vector<std::pair<std::string, ValueId>> named;
    for (const auto& [key, value] : in.members()) {
      if (!value.is(Kind::String)) {
        problems_.add(5004, value.where(), quoted(key.text()) + " inside 'in' is not the name of a value");
        continue;
      }
      const auto from = use(value.text(), value.where());
      if (!from) continue;
      check_form(InputForm::Tensor, p_.values[*from], step);
      step.in.push_back(*from);
      named.emplace_back(key.text(), *from);
    }
    return named;
  }

  // Values that a program is fed with again and again in, one array out.
  void read_generate(ObjectReader& r, const StepKind& kind, Step step, size_t index) {
    Value out;
    Generate what = std::get<Generate>(kind.parse(r, out, out));
    if (const Json* in = r.required("in"); expect(in, Kind::Object, "in")) what.inputs = read_named(*in, step);
    if (what.sampling && what.sampling->has_seed_input) {
      const Json* seed = r.optional("sample")->find("seed");
      if (const auto from = use(seed->text(), seed->where())) {
        check_form(InputForm::Tensor, p_.values[*from], step);
        step.in.push_back(*from);
      }
    }
    const bool is_given = std::any_of(what.inputs.begin(), what.inputs.end(), [&](const auto& input) { return input.first == what.tokens; });
    if (is_given == !what.start.empty())
      problems_.add(5004, step.where, is_given ? "step 'generate' has a 'start' beside the tokens of 'in'" : "step 'generate' has neither a 'start' nor " + quoted(what.tokens) + " in 'in'");
    const Json* named = r.optional("out");
    out.name = named ? r.string(named, "out") : "steps[" + std::to_string(index) + "]";
    r.finish();
    step.out = {add_value(std::move(out), named ? named->where() : step.where)};
    previous_ = step.out[0];
    step.what = std::move(what);
    p_.steps.push_back(std::move(step));
  }

  void read_run(ObjectReader& r, const StepKind& kind, Step step) {
    Value none;
    step.what = kind.parse(r, none, none);
    Run& run = std::get<Run>(step.what);
    if (const Json* in = r.required("in"); expect(in, Kind::Object, "in")) run.inputs = read_named(*in, step);
    if (const Json* out = r.required("out"); expect(out, Kind::Object, "out"))
      for (const auto& [key, value] : out->members()) {
        if (value.text().empty()) {
          problems_.add(5004, value.where(), quoted(key.text()) + " inside 'out' is not a name");
          continue;
        }
        Value v;
        v.name = value.text();
        ValueId to = add_value(std::move(v), value.where());
        step.out.push_back(to);
        run.outputs.emplace_back(key.text(), to);
      }
    r.finish();
    if (step.out.empty()) problems_.add(5005, step.where, "step 'run' names no output");
    previous_ = step.out.size() == 1 ? std::optional(step.out[0]) : std::nullopt;
    p_.steps.push_back(std::move(step));
  }

  // Lists in, under the names of their items; what comes of each item out, one behind the other.
  void read_for_each(ObjectReader& r, const StepKind& kind, Step step) {
    Value none;
    ForEach each = std::get<ForEach>(kind.parse(r, none, none));
    auto body = std::make_shared<Pipeline>();
    body->name = p_.name + ".each" + (++bodies_ == 1 ? "" : std::to_string(bodies_));
    body->file = p_.file;
    body->is_body = true;
    Builder inner(*body, problems_);
    if (p_.is_body) problems_.add(5005, step.where, "a 'for_each' in the steps of another one is not in this version");
    if (const Json* in = r.required("in"); expect(in, Kind::Object, "in")) {
      if (in->size() == 0) problems_.add(5004, in->where(), "'in' names no list");
      for (const auto& [key, value] : in->members()) {
        Value item;
        item.name = key.text();
        if (!value.is(Kind::String)) problems_.add(5004, value.where(), quoted(key.text()) + " inside 'in' is not the name of a value");
        else if (const auto from = use(value.text(), value.where())) {
          check_form(InputForm::Items, p_.values[*from], step);
          item.picture = p_.values[*from].picture;
          step.in.push_back(*from);
        }
        inner.add_item(std::move(item), key.where());
      }
    }
    const Json* out = r.required("out");
    if (!p_.is_body) inner.build_body(r, out);
    if (!body->outputs.empty())
      for (const auto& [key, value] : out->members()) {
        Value result;
        result.name = value.text();
        result.kind = body->value(body->outputs[step.out.size()]).kind;
        step.out.push_back(add_value(std::move(result), value.where()));
      }
    each.results = body->outputs;
    each.body = std::move(body);
    step.what = std::move(each);
    r.finish();
    previous_ = step.out.size() == 1 ? std::optional(step.out[0]) : std::nullopt;
    p_.steps.push_back(std::move(step));
  }

  // What a body gives, {its name there: its name outside}; none where one of them is wrong.
  void read_results(const Json& out) {
    if (out.size() == 0) problems_.add(5005, out.where(), "step 'for_each' names no result");
    std::vector<ValueId> results;
    for (const auto& [key, value] : out.members()) {
      if (value.text().empty()) {
        problems_.add(5004, value.where(), quoted(key.text()) + " inside 'out' is not a name");
        continue;
      }
      const auto id = use(key.text(), key.where());
      if (!id) continue;
      if (const ValueKind kind = p_.values[*id].kind; kind == ValueKind::List || kind == ValueKind::Boxes || kind == ValueKind::Image || kind == ValueKind::Sound)
        problems_.add(5005, key.where(), quoted(key.text()) + " is " + (kind == ValueKind::List ? "a list" : kind == ValueKind::Boxes ? "boxes" : "a file") +
                                             ", and each item gives one row of an array, of classes or of a text");
      else results.push_back(*id);
    }
    if (results.size() == out.size()) p_.outputs = std::move(results);
  }

  // Steps behind `batch` work on all items of it; what belongs to one of them has no meaning there.
  void check_batches() {
    if (problems_.any()) return;
    std::vector<bool> batched(p_.values.size(), false);
    bool is_there = false;
    for (const Step& step : p_.steps) {
      size_t count = 0;
      for (const ValueId id : step.in) count += batched[id];
      const bool is_batch = std::holds_alternative<Batch>(step.what);
      if (is_batch && (is_there || count > 0)) problems_.add(5005, step.where, "a second 'batch' in the same steps");
      else if (count > 0 && count < step.in.size())
        problems_.add(5005, step.where, "step '" + step.op + "' takes a batch of items beside what belongs to one item");
      is_there = is_there || is_batch;
      for (const ValueId id : step.out) batched[id] = is_batch || count > 0;
    }
  }

  void check_form(InputForm form, const Value& in, const Step& step) {
    auto refuse = [&](std::string_view expected) {
      std::string_view is = in.kind == ValueKind::Media     ? "a file"
                            : in.kind == ValueKind::Strings ? "a text"
                            : in.kind == ValueKind::Bytes   ? "a file of any kind"
                            : in.kind == ValueKind::List    ? "a list"
                            : in.kind == ValueKind::Classes ? "a list of classes"
                            : in.kind == ValueKind::Text    ? "a text that was made"
                            : in.kind == ValueKind::Boxes   ? "boxes with labels"
                            : in.kind == ValueKind::Image || in.kind == ValueKind::Sound ? "a file that was made"
                            : in.picture                    ? "a picture in another layout"
                                                            : "an array that is no picture";
      problems_.add(
          5005, step.where,
          "step '" + step.op + "' takes " + std::string(expected) + ", " + quoted(in.name) + " is " + std::string(is));
    };
    switch (form) {
      case InputForm::Media:
        if (in.kind != ValueKind::Media) return refuse("a file");
        for (const auto& type : in.accept)
          if (type.starts_with("image/") != (step.op == "decode_image"))
            problems_.add(5005, step.where,
                          "step '" + step.op + "' cannot decode " + type + ", which " + quoted(in.name) + " accepts");
        return;
      case InputForm::Bytes:
        if (in.kind != ValueKind::Bytes) refuse("a file of any kind (an input that accepts application/octet-stream)");
        return;
      case InputForm::Picture:
        if (!in.picture || in.picture->layout != PixelLayout::Hwc) refuse("a picture [h, w, c]");
        return;
      case InputForm::Texts:
        if (in.kind != ValueKind::Strings) refuse("a text (an input that accepts text/plain)");
        return;
      case InputForm::Items:
        if (in.kind != ValueKind::List) refuse("lists");
        return;
      case InputForm::Found:
        if (in.kind != ValueKind::Boxes) refuse("boxes with labels, which 'detections' makes");
        return;
      case InputForm::Tensor:
      case InputForm::Fed:
      case InputForm::Preset:
      case InputForm::None:
      case InputForm::Named:
      case InputForm::Boxes:
        if (in.kind != ValueKind::Tensor) refuse("an array");
        return;
    }
  }

  void read_outputs(const Json& outputs) {
    if (outputs.size() == 0) problems_.add(5004, outputs.where(), "'outputs' is empty");
    std::vector<bool> is_output(p_.values.size(), false);
    for (const Json& o : outputs.items()) {
      if (!o.is(Kind::String)) {
        problems_.add(5004, o.where(),
                      "'outputs' holds " + std::string(name_of(o.kind())) + ", expected names of values");
        continue;
      }
      auto id = use(o.text(), o.where());
      if (!id) continue;
      if (const ValueKind kind = p_.values[*id].kind; kind == ValueKind::Media || kind == ValueKind::Strings || kind == ValueKind::Bytes)
        problems_.add(5005, o.where(), quoted(o.text()) + " is an input " + (kind == ValueKind::Strings ? "text" : "file") + ", not a result");
      else if (kind == ValueKind::List)
        problems_.add(5005, o.where(), quoted(o.text()) + " is a list, which 'for_each' takes; it is no answer");
      if (is_output[*id]) problems_.add(5005, o.where(), quoted(o.text()) + " twice in 'outputs'");
      is_output[*id] = true;
      p_.outputs.push_back(*id);
    }
  }

  // One file is not both a list and a tokenizer.
  void check_assets() {
    std::map<std::string, bool> is_tokenizer;
    for (const Step& step : p_.steps) {
      const std::string name = asset_of(step);
      if (name.empty()) continue;
      if (is_tokenizer.emplace(name, wants_tokenizer(step)).first->second != wants_tokenizer(step))
        problems_.add(5004, step.where, quoted(name) + " is a tokenizer in one step and a list in another");
    }
  }

  // What is decoded costs time and memory that the size of this file does not tell.
  void check_forms() {
    std::map<ValueId, std::vector<const Step*>> forms;
    for (const Step& step : p_.steps) {
      if (!is_decoder(step.what) || step.in.empty()) continue;
      std::vector<const Step*>& of_input = forms[step.in[0]];
      if (std::any_of(of_input.begin(), of_input.end(), [&](const Step* known) { return decode_alike(*known, step); })) continue;
      of_input.push_back(&step);
      if (of_input.size() == kMaxForms + 1)
        problems_.add(5004, step.where, quoted(p_.values[step.in[0]].name) + " is decoded in more than " + std::to_string(kMaxForms) + " ways");
    }
  }

  void check_use() {
    if (problems_.any()) return;  // a step that could not be read uses nothing
    for (size_t i = 0; i < p_.values.size(); ++i)
      if (!used_[i])
        problems_.add(5005, declared_[i], quoted(p_.values[i].name) + " is used by no step and is no output");
    // What leaves a decoder goes to array steps: an answer made of it alone would need no model.
    std::vector<bool> computed(p_.values.size(), false);
    const auto need = [&](ValueId id, Position where) {
      if (!computed[id]) problems_.add(5005, where, quoted(p_.values[id].name) + " passes through no array step before this");
    };
    for (const Step& s : p_.steps) {
      const bool any = is_array_step(s.what) || std::any_of(s.in.begin(), s.in.end(), [&](ValueId id) { return computed[id]; });
      if (!any && !is_decoder(s.what) && !std::holds_alternative<Batch>(s.what)) need(s.in[0], s.where);
      for (const ValueId id : s.out) computed[id] = any;
    }
    // What tells how the tokens of an answer lie in the texts is one beside it.
    std::vector<bool> is_place(p_.values.size(), false);
    for (const Step& s : p_.steps)
      for (const ValueId id : s.out) is_place[id] = std::holds_alternative<Tokenize>(s.what) && !p_.values[id].is_tokens;
    for (const ValueId id : p_.outputs)
      if (!is_place[id]) need(id, declared_[id]);
  }

  Pipeline& p_;
  Problems& problems_;
  std::map<std::string, ValueId, std::less<>> ids_;  // by name
  std::vector<Position> declared_;
  std::vector<bool> used_;
  std::optional<ValueId> previous_;  // result of the step before
  size_t count_ = 0, bodies_ = 0;  // steps, and those that have steps of their own
  bool broken_ = false;  // a step was unknown: what follows may lack its input
};

}  // namespace

void build_pipeline(Pipeline& pipeline, ObjectReader& description, Problems& problems) { Builder(pipeline, problems).build(description); }

}  // namespace mlc::pipeline
