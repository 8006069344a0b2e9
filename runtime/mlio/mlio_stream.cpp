// The streams of the C table.
#include <optional>

#include "runtime/mlio/handles.h"
#include "runtime/pipeline/stream_run.h"

namespace mlc::api {

// What the struct was at first. The number never changes.
template <> inline constexpr uint32_t kFirstSize<MlioStreamInfo> = 40;

}  // namespace mlc::api

struct MlioStream {
  const MlioPipeline& pipeline;
  MlcSession* session;
  mlc::pipeline::AnswerBudget budget;  // what a chunk may take: beside what the stream keeps
  mlc::pipeline::StreamRun run;
};

namespace mlc::mlio {
namespace {

bool has_stream(const MlioPipeline& p) { return p.description().stream.has_value(); }

}  // namespace

int stream_info(const MlioPipeline* p, MlioStreamInfo* out) {
  if (!p) return MLC_USAGE;
  if (!has_stream(*p)) return MLC_NOT_FOUND;
  const pipeline::Stream& stream = *p->description().stream;
  MlioStreamInfo info{};
  info.input = p->description().value(stream.input).name.c_str();
  info.rate = stream.rate, info.pads = stream.pads;
  info.hop = static_cast<uint64_t>(stream.hop), info.context = static_cast<uint64_t>(stream.context);
  return api::fill(info, out);
}

int stream_open(const MlioPipeline* p, MlcSession* session, MlioStream** out, MlioError** error) {
  if (out) *out = nullptr;
  return guarded(error, [&] {
    if (!p || !session || !out) return fail(Status(Code::Usage, "stream_open: no pipeline or session, or no place for the result"), error);
    if (!has_stream(*p))
      return fail(Status(Code::NotFound, "pipeline '{}' has no 'stream', and runs once over its whole inputs", p->description().name), error);
    uint64_t run_ns = 0;
    pipeline::AnswerBudget budget = answer_budget(p->model);
    const pipeline::Programs programs = programs_of(p->model, session, nullptr, budget, run_ns);
    auto run = pipeline::StreamRun::open(*p->target.pipeline, programs, budget);
    if (!run.ok()) return fail(std::move(run).status(), error);
    *out = new MlioStream{*p, session, budget, std::move(*run)};
    return static_cast<int>(MLC_OK);
  });
}

void stream_release(MlioStream* stream) { delete stream; }

int stream_give(MlioStream* stream, const MlioGiven* inputs, uint32_t num_inputs, MlioError** error) {
  return guarded(error, [&] {
    if (!stream || (num_inputs > 0 && !inputs)) return fail(Status(Code::Usage, "stream_give: no stream or no inputs"), error);
    std::vector<io::LoadedInput> loaded;
    std::vector<pipeline::GivenInput> given;
    loaded.reserve(num_inputs);
    for (uint32_t i = 0; i < num_inputs; ++i)
      if (Status s = give_one(stream->pipeline, inputs[i], loaded, given); !s.ok()) return fail(std::move(s), error);
    auto beside = stream->pipeline.target.pipeline->beside_sound(std::move(given), decode_limits(stream->pipeline.model));
    if (!beside.ok()) return fail(std::move(beside).status(), error);
    if (Status s = stream->run.give(std::move(*beside), stream->budget); !s.ok()) return fail(std::move(s), error);
    return static_cast<int>(MLC_OK);
  });
}

int stream_push(MlioStream* stream, const float* samples, uint64_t count, MlioError** error) {
  return guarded(error, [&] {
    if (!stream || (count > 0 && !samples)) return fail(Status(Code::Usage, "stream_push: no stream or no samples"), error);
    if (Status pushed = stream->run.push({samples, static_cast<size_t>(count)}); !pushed.ok()) return fail(std::move(pushed), error);
    return static_cast<int>(MLC_OK);
  });
}

int stream_finish(MlioStream* stream) {
  if (!stream) return MLC_USAGE;
  stream->run.finish();
  return MLC_OK;
}

int stream_next(MlioStream* stream, const MlioRunOptions* o, MlioAnswers** out, MlioError** error) {
  if (out) *out = nullptr;
  return guarded(error, [&] {
    if (!stream || !out) return fail(Status(Code::Usage, "stream_next: no stream, or no place for the result"), error);
    auto options = api::read_options(o, "MlioRunOptions");
    if (!options) return fail(std::move(options).status(), error);
    auto run = api::read_options(options->run, "MlcRunOptions");
    if (!run) return fail(std::move(run).status(), error);
    if (!stream->run.has_chunk()) return static_cast<int>(MLC_OK);
    Ran ran;
    pipeline::AnswerBudget budget = stream->budget;
    const pipeline::Programs programs = programs_of(stream->pipeline.model, stream->session, &*run, budget, ran.run_ns);
    auto chunk = stream->run.run_chunk(options->top > 0 ? std::optional<int64_t>(options->top) : std::nullopt, budget, programs);
    if (!chunk.ok()) return fail(std::move(chunk).status(), error);
    ran.answers = std::move(chunk->answers);
    ran.first_sample = chunk->start;
    *out = answers_of(std::move(ran));  // the last that may fail
    stream->run.pass(*chunk);
    return static_cast<int>(MLC_OK);
  });
}

int stream_reset(MlioStream* stream) {
  if (!stream) return MLC_USAGE;
  stream->run.reset();
  return MLC_OK;
}

}  // namespace mlc::mlio
