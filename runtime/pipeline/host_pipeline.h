// A pipeline around the programs of a container: files to the tensors that compiled code takes, and its tensors to answers.
//
//   auto host = HostPipeline::create(std::move(description), assets);
//   auto made = host->before(inputs);                         // decoders
//   auto answers = host->run(std::move(made), {}, budget, programs);  // programs, host steps between them and behind
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "runtime/io/limits.h"
#include "runtime/pipeline/answer_budget.h"
#include "runtime/pipeline/answers.h"
#include "schema/pipeline/pipeline.h"
#include "schema/text/compiled.h"

namespace mlc::pipeline {

// Bytes of the asset of that name. Those of a tokenizer are used in place and must outlive the pipeline, others only the
// call of `create`.
using AssetLookup = std::function<Result<Bytes>(std::string_view name)>;

// One input of a pipeline as the user gave it: the bytes of a file, or a tensor where the input is an array, or a picture
// or a sound that the user has decoded, or a list of texts. The bytes of a file where a text is taken are one text. Where a file of any kind is
// taken an array u8 [n] is one.
struct GivenInput {
  std::string name;  // empty: the only input
  Bytes file;        // borrowed until `before` returns
  std::optional<HostTensor> tensor;
  uint64_t gap_at = 0, gap = 0;  // so many bytes of the file, from `gap_at` on, are not in `file` (FileEnds)
};

// Bytes at the ends of a file that the steps of a pipeline read; what lies between them may be left out.
struct FileEnds {
  uint64_t first = 0, last = 0;
};

// How a program runs for rows of tokens that are grouped by their lengths (`longest_of_group`).
struct RowRuns {
  int64_t most_rows = INT64_MAX;  // that a run takes
  int64_t most_tokens = 2048;     // of a run of several rows: more take memory and gain nothing
  int64_t run_tokens = 8;         // that take as long as a run does beside its tokens
};

// How a pipeline uses the programs of its container.
struct Programs {
  // Results by name. Those that are views are valid until the next call.
  std::function<Result<std::vector<NamedTensor>>(const std::string& program, const std::vector<NamedTensor>& inputs)> run;
  // An output of a program that has run for nothing: of its type, with no rows; extents that the run decides are 0.
  std::function<Result<HostTensor>(const std::string& program, const std::string& output)> no_rows;
  // An input of a program as it is before anything has run: of its type and extents, all of which are known (else Malformed); paid
  // for from the budget of the run.
  std::function<Result<HostTensor>(const std::string& program, const std::string& input)> zeros;
  // For rows of that input.
  std::function<Result<RowRuns>(const std::string& program, const std::string& input)> row_runs;
};

// The text of a file: without a byte order mark.
std::string_view text_in(Bytes file);

// What host steps read beside values, by name.
struct Assets {
  std::map<std::string, std::vector<std::string>> lines;  // of each list
  std::map<std::string, text::Compiled> tokenizers;
};

class HostPipeline {
 public:
  static Result<HostPipeline> create(Pipeline description, const AssetLookup& assets);

  const Pipeline& description() const { return description_; }

  // Of the input of this name, or of the only one where it is empty; nothing where all bytes of its file are needed.
  std::optional<FileEnds> ends_of(std::string_view input) const;
  // Samples per second of the sound that the input of this name is; nothing where it is none.
  std::optional<uint32_t> rate_of(std::string_view input) const;

  // What the decoders make, and the arrays that were given, by name: all that later steps take. All wrong and missing inputs are
  // reported at once (E4001).
  // `limits` holds for each input, or, where it says so, for what the decoders give and take together. Steps that decode one input
  // alike decode it once: of their tensors the first owns the bytes and the others are views, so all are kept together.
  Result<std::vector<NamedTensor>> before(std::vector<GivenInput> inputs, const io::DecodeLimits& limits = {}) const;
  // Of a pipeline with a stream: the same of all inputs but the sound, which are given once for all of its chunks.
  Result<std::vector<NamedTensor>> beside_sound(std::vector<GivenInput> inputs, const io::DecodeLimits& limits = {}) const;
  // The programs that a run asks for, those of the steps that are done for each item among them. Never empty.
  std::vector<std::string> programs() const;
  // All steps behind `before`, whose tensors `made` are. `top` replaces the k of every top_k. Answers come in the order of the
  // file's "outputs", and are paid for from `budget`, as are tensors that are kept from one program to the next. Views among the
  // answers are those of the last program. A pipeline with a stream runs over the whole sound (run_all_chunks).
  Result<std::vector<Answer>> run(std::vector<NamedTensor> made, std::optional<int64_t> top, AnswerBudget& budget, const Programs& programs) const;

  // One chunk of a stream: `made` has its samples and what is carried into it, which `carried` has too; `next` gets what is carried out
  // of it, of the same types and shapes (else InputMismatch).
  Result<std::vector<Answer>> run_chunk(std::vector<NamedTensor> made, std::optional<int64_t> top, AnswerBudget& budget, const Programs& programs,
                                        const std::vector<HostTensor>& carried, std::vector<HostTensor>& next) const;

 private:
  // Puts the results of a step that takes texts into `made`, and what they take off `left`.
  Status add_tokens(const Step& step, const std::vector<GivenInput*>& of_value, io::DecodeLimits& left, std::vector<std::optional<HostTensor>>& made) const;
  // `left_out`: an input that is not given.
  Result<std::vector<NamedTensor>> matched(std::vector<GivenInput> inputs, const io::DecodeLimits& limits, std::optional<ValueId> left_out) const;
  // The decoders; `of_value` has what was given for each input, null for one that is left out.
  Result<std::vector<NamedTensor>> decoded(const std::vector<GivenInput*>& of_value, const io::DecodeLimits& limits) const;

  Pipeline description_;
  Assets assets_;
};

}  // namespace mlc::pipeline
