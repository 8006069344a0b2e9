// Private to runtime/mlio: what the handles of mlio.h are.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/api/sizes.h"
#include "runtime/mlio/mlio.h"
#include "runtime/mlio/runner.h"

namespace mlc::api {

template <> inline constexpr uint32_t kFirstSize<MlioRunOptions> = 24;

}  // namespace mlc::api

struct MlioError {
  mlc::Status status;
  std::string text;
  bool is_kept = false;  // by this library, for when there is no memory
};

struct MlioPipeline {
  mlc::mlio::ModelRef model;
  mlc::mlio::Target target;
  std::vector<std::vector<const char*>> media_types;  // of each input

  const mlc::pipeline::Pipeline& description() const { return target.pipeline->description(); }
};

struct MlioAnswers {
  mlc::mlio::Ran ran;
  std::vector<std::vector<MlcString>> strings;  // of each answer that is an array of them
};

namespace mlc::mlio {

// Made before it is needed.
MlioError& no_memory();
int fail(Status status, MlioError** error);
MlioAnswers* answers_of(Ran ran);
// An input as the library takes it; `loaded` has what it owns, and room for one more.
Status give_one(const MlioPipeline& pipeline, const MlioGiven& given, std::vector<io::LoadedInput>& loaded, std::vector<pipeline::GivenInput>& all);

// What `body` gives; MLC_RESOURCE where it finds no memory.
template <class Body>
int guarded(MlioError** error, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  if (error) *error = &no_memory();
  return MLC_RESOURCE;
}

int stream_info(const MlioPipeline* pipeline, MlioStreamInfo* out);
int stream_open(const MlioPipeline* pipeline, MlcSession* session, MlioStream** out, MlioError** error);
void stream_release(MlioStream* stream);
int stream_give(MlioStream* stream, const MlioGiven* inputs, uint32_t num_inputs, MlioError** error);
int stream_push(MlioStream* stream, const float* samples, uint64_t count, MlioError** error);
int stream_finish(MlioStream* stream);
int stream_next(MlioStream* stream, const MlioRunOptions* options, MlioAnswers** out, MlioError** error);
int stream_reset(MlioStream* stream);

}  // namespace mlc::mlio
