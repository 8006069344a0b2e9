// The streams of libmlio as Python holds them.
#pragma once

#include "pipeline.h"

namespace mlrt {

class Stream {
 public:
  // A Session and a Pipeline, which it keeps. Raises MLC_NOT_FOUND where the pipeline has no stream.
  Stream(nb::object session, nb::object pipeline);
  Stream(const Stream&) = delete;
  ~Stream() { mlio().stream_release(handle_); }

  nb::tuple info() const;  // (input, rate, hop, context, pads)
  // What all chunks are given beside the sound, by name.
  void give(nb::dict given);
  void push(nb::handle samples);  // a dense array of f32
  void finish();
  void reset();
  // None, or the first sample of the next chunk and its answers, as run_pipeline has them.
  nb::object next(uint32_t top, const Cancel* cancel, uint64_t time_limit_ns, bool tensors);

 private:
  nb::object kept_session_, kept_pipeline_;
  Session* session_;
  const Pipeline* pipeline_;
  MlioStream* handle_ = nullptr;
};

void add_stream(nb::module_& m);

}  // namespace mlrt
