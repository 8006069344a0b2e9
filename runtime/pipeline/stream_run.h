// A pipeline with a stream over a sound that comes in pieces: each chunk of it is one run, and what the stream carries stays here
// between them (spec/pipeline.md, "Streams").
//
//   auto stream = StreamRun::open(host, programs, budget);
//   stream->push(samples);                       // any number of them
//   while (stream->has_chunk()) {
//     auto chunk = stream->run_chunk({}, budget, programs);
//     stream->pass(*chunk);                      // the next one
//   }
//   stream->finish();                            // and once more: the last chunk, where the stream pads it
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/host_pipeline.h"

namespace mlc::pipeline {

struct Chunk {
  uint64_t index = 0, start = 0;  // `start`: its first sample, context left out
  std::vector<Answer> answers;    // views among them until the next run
  std::vector<HostTensor> carried;  // into the next one, in the order of Stream::carry
};

class StreamRun {
 public:
  // The pipeline has a stream and outlives this. What is kept between chunks is paid for from `budget`. Malformed: the programs of the
  // container do not say how large what is carried is.
  static Result<StreamRun> open(const HostPipeline& pipeline, const Programs& programs, AnswerBudget& budget);

  // What all chunks are given beside their samples, HostPipeline::beside_sound; stays when the stream is reset. Nothing where there is no
  // other input. InputMismatch (E4001) once a chunk has run.
  Status give(std::vector<NamedTensor> beside, AnswerBudget& budget);
  // Copied, and kept until their chunk has run. Usage after `finish`.
  Status push(std::span<const float> samples);
  // Nothing more comes. What is no whole chunk is one, or is dropped, as the stream says.
  void finish() { is_finished_ = true; }
  bool has_chunk() const;
  // Runs it, and leaves the stream where it is. Internal where there is none; InputMismatch (E4001) where an input beside the sound is missing.
  Result<Chunk> run_chunk(std::optional<int64_t> top, AnswerBudget& budget, const Programs& programs);
  // Goes on behind this chunk, which has just run. Does not fail.
  void pass(Chunk& chunk);
  // As it was opened: samples that wait and what is carried are forgotten.
  void reset();

 private:
  explicit StreamRun(const HostPipeline& pipeline) : pipeline_(&pipeline) {}
  const Stream& stream() const { return *pipeline_->description().stream; }
  uint64_t fresh() const;  // samples that wait, without the context of the next chunk

  const HostPipeline* pipeline_;
  std::vector<float> samples_;       // from the context of the next chunk on, at `at_`
  size_t at_ = 0;
  std::vector<HostTensor> carried_;  // in the order of Stream::carry
  std::vector<NamedTensor> beside_;  // what was given once
  bool is_given_ = false;
  uint64_t index_ = 0;               // of the next chunk
  bool is_finished_ = false;
};

// What is said of a sound that has none.
Status no_chunk(const Stream& stream, uint64_t samples);

// The whole sound, f32 [samples]: arrays of all chunks as one, [chunks, ...]; rows of classes, lines of texts and samples of sounds one behind the
// other.
// InputMismatch (E4001) where there is no chunk, or chunks give arrays of different shapes.
// `beside`: what all chunks are given.
Result<std::vector<Answer>> run_all_chunks(const HostPipeline& pipeline, const HostTensor& sound, std::vector<NamedTensor> beside, std::optional<int64_t> top,
                                           AnswerBudget& budget, const Programs& programs);

}  // namespace mlc::pipeline
