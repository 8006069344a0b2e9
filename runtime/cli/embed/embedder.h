// A pipeline of one input that gives one vector: of each text of a list, or of a file.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/options.h"

namespace mlc::cli {

struct Vectors {
  std::string name;  // of the pipeline's output
  size_t width = 0;
  std::vector<float> elements;  // [rows, width]

  size_t rows() const { return width > 0 ? elements.size() / width : 0; }
};

class Embedder {
 public:
  // All of them outlive it.
  Embedder(const OpenModel& model, const mlio::Target& target, MlcSession* session, pipeline::AnswerBudget& budget)
      : model_(model), target_(target), session_(session), budget_(budget) {}

  // Usage, unless the pipeline has one input.
  static Status check(const OpenModel& model, const mlio::Target& target);
  static bool takes_text(const mlio::Target& target);

  // A row for each text, in their order. `batch` of them run together, long texts beside long ones: rows of a batch are as long as the
  // longest. No vector depends on its batch but by rounding.
  Result<Vectors> of_texts(const std::vector<std::string>& texts, size_t batch, const io::DecodeLimits& limits);
  // Adds a row for what was decoded of a file.
  Status add_file(std::vector<NamedTensor> made, Vectors& all);

 private:
  Status add_batch(const std::vector<std::string>& texts, std::span<const size_t> part, const io::DecodeLimits& limits, Vectors& all);
  // `count` rows of one width, which `all` has or gets; views of the session's last run.
  Result<std::vector<pipeline::Answer>> run(std::vector<NamedTensor> made, int64_t count, Vectors& all);

  const OpenModel& model_;
  const mlio::Target& target_;
  MlcSession* session_;
  pipeline::AnswerBudget& budget_;
};

}  // namespace mlc::cli
