#include "stream.h"

#include "interrupt.h"

namespace mlrt {

Stream::Stream(nb::object session, nb::object pipeline)
    : kept_session_(std::move(session)), kept_pipeline_(std::move(pipeline)), session_(nb::cast<Session*>(kept_session_)),
      pipeline_(nb::cast<Pipeline*>(kept_pipeline_)) {
  const auto lock = session_->use();
  MlioError* error = nullptr;
  check(mlio().stream_open(pipeline_->handle(), session_->handle(), &handle_, &error), error);
}

nb::tuple Stream::info() const {
  auto info = sized<MlioStreamInfo>();
  mlio().stream_info(pipeline_->handle(), &info);
  return nb::make_tuple(info.input, info.rate, info.hop, info.context, info.pads != 0);
}

void Stream::give(nb::dict given) {
  GivenInputs inputs(*pipeline_, given);
  const auto lock = session_->use();
  MlioError* error = nullptr;
  check(mlio().stream_give(handle_, inputs.all.data(), static_cast<uint32_t>(inputs.all.size()), &error), error);
}

void Stream::push(nb::handle samples) {
  Inputs arrays;
  Port sound;
  sound.dtype = MLC_F32;
  const MlcTensor t = arrays.add("samples", sound, samples);
  const auto lock = session_->use();
  MlioError* error = nullptr;
  check(mlio().stream_push(handle_, static_cast<const float*>(t.data), t.bytes / sizeof(float), &error), error);
}

void Stream::finish() {
  const auto lock = session_->use();
  mlio().stream_finish(handle_);
}

void Stream::reset() {
  const auto lock = session_->use();
  mlio().stream_reset(handle_);
}

nb::object Stream::next(uint32_t top, const Cancel* cancel, uint64_t time_limit_ns, bool tensors) {
  const auto lock = session_->use();
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
    code = mlio().stream_next(handle_, &options, &made, &error);
  }
  interruptible.check(error);
  check(code, error);
  if (!made) return nb::none();
  const std::unique_ptr<MlioAnswers, ReleaseAnswers> answers(made);
  auto info = sized<MlioAnswersInfo>();
  mlio().answers_info(made, &info);
  return nb::make_tuple(info.first_sample, answers_of(*session_, *made, tensors));
}

void add_stream(nb::module_& m) {
  nb::class_<Stream>(m, "Stream")
      .def(nb::init<nb::object, nb::object>(), nb::arg("session"), nb::arg("pipeline"))
      .def("info", &Stream::info)
      .def("give", &Stream::give, nb::arg("inputs"))
      .def("push", &Stream::push, nb::arg("samples"))
      .def("finish", &Stream::finish)
      .def("reset", &Stream::reset)
      .def("next", &Stream::next, nb::arg("top"), nb::arg("cancel").none(), nb::arg("time_limit_ns"), nb::arg("tensors"));
}

}  // namespace mlrt
