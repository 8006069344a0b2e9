// Answers as text, as JSON and as files. Nothing is left out without a word (spec/json.md).
#pragma once

#include <string>
#include <vector>

#include "base/cli/report.h"
#include "runtime/io/file.h"
#include "runtime/pipeline/answer_budget.h"
#include "runtime/pipeline/answers.h"

namespace mlc::cli {

// Results of a bare program as answers: tensors, all of them.
std::vector<pipeline::Answer> as_answers(std::vector<NamedTensor> tensors);

// What they take is paid for from the budget before it is made.
Result<std::string> text_of(const std::vector<pipeline::Answer>& answers, pipeline::AnswerBudget& budget);
Result<Json> json_of(const std::vector<pipeline::Answer>& answers, pipeline::AnswerBudget& budget);

// Usage, unless the name ends as a kind of file that `write_answers` writes.
Status check_output_name(const std::string& path);
// Writes the file that is going to be `path`: .npz (all tensors), .npy (the only tensor), .json (everything, of pictures their size),
// .png or .wav (the only picture or sound, which is then no longer among the answers: the others are shown).
bool holds_one_file(const std::string& path);
Status write_answers(std::vector<pipeline::Answer>& answers, const std::string& path, io::FileWriter& writer, pipeline::AnswerBudget& budget);

}  // namespace mlc::cli
