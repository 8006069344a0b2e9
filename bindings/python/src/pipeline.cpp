#include "pipeline.h"

#include "interrupt.h"

#include <cstring>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

namespace mlrt {
namespace {

constexpr uint64_t kTupleBytes = 192;  // about, with the numbers in it

nb::list rows_of(const MlioAnswers* answers, uint32_t index, uint32_t num_rows, const char* name, CopyBound& bound) {
  nb::list rows;
  for (uint32_t row = 0; row < num_rows; ++row) {
    nb::list classes;
    bound.take(kTupleBytes, name);
    for (uint32_t i = 0; i < mlio().num_classes(answers, index, row); ++i) {
      auto c = sized<MlioClass>();
      mlio().class_at(answers, index, row, i, &c);
      bound.take(kTupleBytes + c.label.bytes, name);
      classes.append(nb::make_tuple(c.label.bytes > 0 ? nb::object(show(c.label)) : nb::none(), c.score, c.index));
    }
    rows.append(classes);
  }
  return rows;
}

nb::list lines_of(const MlioAnswers* answers, uint32_t index, uint32_t num_rows, const char* name, CopyBound& bound) {
  nb::list lines;
  for (uint32_t i = 0; i < num_rows; ++i) {
    auto line = sized<MlioLine>();
    mlio().line(answers, index, i, &line);
    bound.take(kTupleBytes + line.text.bytes, name);
    lines.append(nb::make_tuple(show(line.text), line.score));
  }
  return lines;
}

nb::list boxes_of(const MlioAnswers* answers, uint32_t index, uint32_t num_boxes, const char* name, CopyBound& bound) {
  nb::list boxes;
  for (uint32_t i = 0; i < num_boxes; ++i) {
    auto box = sized<MlioBox>();
    mlio().box(answers, index, i, &box);
    bound.take(2 * kTupleBytes + box.label.bytes, name);
    boxes.append(nb::make_tuple(box.label.bytes > 0 ? nb::object(show(box.label)) : nb::none(), box.score, box.index, box.x1, box.y1, box.x2, box.y2));
  }
  return boxes;
}

nb::bytes bytes_of(MlcBytes file, const char* name, CopyBound& bound) {
  bound.take(file.bytes, name);
  return nb::bytes(static_cast<const char*>(file.data), file.bytes);
}

nb::bytes picture_of(const MlioAnswers* answers, uint32_t index, const char* name, CopyBound& bound) {
  auto image = sized<MlioImage>();
  mlio().image(answers, index, &image);
  return bytes_of(image.file, name, bound);
}

nb::bytes sound_of(const MlioAnswers* answers, uint32_t index, const char* name, CopyBound& bound) {
  auto sound = sized<MlioSound>();
  mlio().sound(answers, index, &sound);
  return bytes_of(sound.file, name, bound);
}

const char* kind_name(int32_t kind) {
  static constexpr const char* kNames[] = {"array", "classes", "text", "boxes", "image", "sound"};  // by MLIO_ARRAY, ...
  return kNames[kind];
}

}  // namespace

std::unique_ptr<Pipeline> Pipeline::open(std::shared_ptr<OpenModel> model, const std::string& name) {
  std::unique_ptr<Pipeline> p(new Pipeline);
  p->model_ = std::move(model);
  MlioError* error = nullptr;
  const int code = mlio().open(&mlc(), p->model_->handle, name.empty() ? nullptr : name.c_str(), &p->handle_, &error);
  if (code == MLC_NOT_FOUND && name.empty()) {
    mlio().error_release(error);
    return nullptr;
  }
  check(code, error);
  return p;
}

std::string Pipeline::name() const {
  auto info = sized<MlioPipelineInfo>();
  mlio().info(handle_, &info);
  return info.name;
}

uint32_t Pipeline::program() const {
  auto info = sized<MlioPipelineInfo>();
  mlio().info(handle_, &info);
  return info.program;
}

nb::list Pipeline::inputs() const {
  nb::list out;
  auto input = sized<MlioInput>();
  for (uint32_t i = 0; mlio().input(handle_, i, &input) == MLC_OK; ++i) {
    nb::list types;
    for (uint32_t k = 0; k < input.num_media_types; ++k) types.append(nb::str(input.media_types[k]));
    out.append(nb::make_tuple(input.name, input.is_array != 0, nb::tuple(types), nb::make_tuple(input.first_bytes, input.last_bytes), input.rate));
  }
  return out;
}

bool Pipeline::takes_text(const char* name) const {
  auto input = sized<MlioInput>();
  for (uint32_t i = 0; mlio().input(handle_, i, &input) == MLC_OK; ++i)
    if (!name || std::strcmp(name, input.name) == 0) return input.num_media_types == 1 && std::strcmp(input.media_types[0], "text/plain") == 0;
  return false;
}

nb::list Pipeline::outputs() const {
  nb::list out;
  auto output = sized<MlioOutput>();
  for (uint32_t i = 0; mlio().output(handle_, i, &output) == MLC_OK; ++i)
    out.append(nb::make_tuple(output.name, kind_name(output.kind)));
  return out;
}

nb::list answers_of(const Session& session, const MlioAnswers& answers, bool tensors) {
  const MlioAnswers* made = &answers;
  nb::list out;
  CopyBound bound(session.model());
  auto a = sized<MlioAnswer>();
  for (uint32_t i = 0; mlio().answer(made, i, &a) == MLC_OK; ++i) {
    const char* kind = kind_name(a.kind);
    if (a.kind == MLIO_CLASSES) out.append(nb::make_tuple(a.name, kind, rows_of(made, i, a.num_rows, a.name, bound)));
    else if (a.kind == MLIO_TEXT) out.append(nb::make_tuple(a.name, kind, lines_of(made, i, a.num_rows, a.name, bound)));
    else if (a.kind == MLIO_BOXES) out.append(nb::make_tuple(a.name, kind, boxes_of(made, i, a.num_rows, a.name, bound)));
    else if (a.kind == MLIO_IMAGE) out.append(nb::make_tuple(a.name, kind, picture_of(made, i, a.name, bound)));
    else if (a.kind == MLIO_SOUND) out.append(nb::make_tuple(a.name, kind, sound_of(made, i, a.name, bound)));
    else out.append(nb::make_tuple(a.name, kind, session.output(a.array, nb::none(), tensors, bound)));
  }
  return out;
}

GivenInputs::GivenInputs(const Pipeline& pipeline, nb::dict given) {
  const Port any;
  Port text;
  text.dtype = MLC_STR;
  for (auto [key, value] : given) {
    MlioGiven& g = all.emplace_back(MlioGiven{});
    if (!key.is_none()) g.name = name_of(key);
    if (nb::isinstance<nb::bytes>(value)) {
      const auto file = nb::borrow<nb::bytes>(value);  // owned by the dict
      g.file = {file.data(), file.size()};
    } else if (nb::isinstance<nb::tuple>(value)) {  // the ends of a file: bytes, where others are left out, and how many
      const auto ends = nb::borrow<nb::tuple>(value);
      const auto file = nb::cast<nb::bytes>(ends[0]);
      g.file = {file.data(), file.size()};
      g.gap_at = nb::cast<uint64_t>(ends[1]), g.gap = nb::cast<uint64_t>(ends[2]);
    } else {
      views_.push_back(arrays_.add(g.name, pipeline.takes_text(g.name) ? text : any, value));
      g.tensor = &views_.back();
    }
  }
}

nb::list run_pipeline(Session& session, const Pipeline& pipeline, nb::dict given, uint32_t top, const Cancel* cancel,
                      uint64_t time_limit_ns, bool tensors) {
  GivenInputs inputs(pipeline, given);
  const auto lock = session.use();
  Interruptible interruptible(cancel);
  auto run = sized<MlcRunOptions>();
  run.cancel = interruptible.token();
  run.time_limit_ns = time_limit_ns;
  auto options = sized<MlioRunOptions>();
  options.run = &run;
  options.top = top;
  MlioAnswers* made = nullptr;
  MlioError* error = nullptr;
  int code = MLC_OK;
  {
    const nb::gil_scoped_release unlocked;
    code = mlio().run(pipeline.handle(), session.handle(), &options, inputs.all.data(), static_cast<uint32_t>(inputs.all.size()),
                      &made, &error);
  }
  interruptible.check(error);
  check(code, error);
  const std::unique_ptr<MlioAnswers, ReleaseAnswers> answers(made);
  return answers_of(session, *answers, tensors);
}

void add_pipeline(nb::module_& m) {
  nb::class_<Pipeline>(m, "Pipeline")
      .def_static("open", &Pipeline::open, nb::arg("model"), nb::arg("name"))
      .def_prop_ro("name", &Pipeline::name)
      .def_prop_ro("program", &Pipeline::program)
      .def("inputs", &Pipeline::inputs)
      .def("outputs", &Pipeline::outputs);
}

}  // namespace mlrt
