// Pipelines of a file behind Triton's arrays: the bytes of pictures, sounds and other files and texts in, and texts out for what is no array.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "bindings/triton/model.h"

namespace mlc::triton {

[[nodiscard]] const MlioApi& mlio();

// "default": the pipeline of the default program.
[[nodiscard]] Result<PipelineHandle> open_pipeline(const MlcModel* model, const std::string& name);
[[nodiscard]] uint32_t program_of(const MlioPipeline* pipeline);
// In: ports of its program. Out: those of the pipeline. An array of the pipeline is the program's array of the same name.
[[nodiscard]] Status ports_of_pipeline(const MlioPipeline* pipeline, std::vector<Port>& inputs, std::vector<Port>& outputs);

// Answers of one run as arrays, in the order of the pipeline's outputs:
//
//   an array            as it is; its memory is the session's until the next run
//   lines of text       BYTES [lines]
//   classes             BYTES [rows], each a list of JSON, best first: [{"index":2,"label":"tench","score":0.9},..]
//   boxes               BYTES [boxes], each an object of JSON: {"index":0,"label":"face","score":0.9,"box":[left,top,right,bottom]}
//   a picture, a sound  BYTES [1], the bytes of a PNG or a WAV
class PipelineRun {
 public:
  // `inputs`: arrays with names; of a port that is a file, one string of its bytes.
  [[nodiscard]] Status run(const Model& model, MlcSession* session, std::span<const MlcTensor> inputs);
  [[nodiscard]] std::span<const MlcTensor> outputs() const { return outputs_; }

 private:
  struct Texts {
    std::vector<std::string> own;
    std::vector<MlcString> strings;
    int64_t count = 0;
  };
  struct AnswersDeleter { void operator()(MlioAnswers* answers) const; };

  [[nodiscard]] Status read(const MlioAnswer& answer, uint32_t index);
  void add_texts(std::vector<std::string> texts);
  void add_bytes(MlcBytes file);
  void add(Texts texts);

  std::unique_ptr<MlioAnswers, AnswersDeleter> answers_;
  std::deque<Texts> texts_;  // what outputs_ point to
  std::vector<MlcTensor> outputs_;
};

}  // namespace mlc::triton
