// Private to runtime/pipeline: one run of a pipeline behind its decoders, or of the steps of a `for_each` for one item.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/pipeline/answer_budget.h"
#include "runtime/pipeline/answers.h"
#include "runtime/pipeline/host_pipeline.h"
#include "runtime/pipeline/row_groups.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

// What all parts of a run share. All outlive it.
struct RunContext {
  const Assets& assets;
  std::optional<int64_t> top;
  AnswerBudget& budget;
  const Programs& programs;
};

using Tensors = std::vector<HostTensor>;  // a list
using RunValue = std::variant<std::monostate, HostTensor, Tensors, Classes, Text, FoundBoxes, ImageFile, SoundFile>;

class PipelineRun {
 public:
  PipelineRun(const Pipeline& pipeline, const RunContext& context)
      : p_(pipeline), context_(context), values_(pipeline.values.size()), paid_(pipeline.values.size(), 0) {}
  PipelineRun(const PipelineRun&) = delete;
  PipelineRun& operator=(const PipelineRun&) = delete;
  ~PipelineRun() {
    for (const uint64_t bytes : paid_) context_.budget.give_back(bytes);
  }

  void set(ValueId id, RunValue value) { values_[id] = std::move(value); }
  Status set(std::vector<NamedTensor> made);  // by name; names that the pipeline does not have are left out
  // Sections in order; the last program's results stay views, all others are copied.
  Status all_sections();
  // `keeps`: results of a program are copied, for another one runs before they are used.
  Status section(const Section& section, bool keeps);
  // Internal: no step has made it. What was paid for it stays paid, and is added to `paid` if that is there.
  Result<RunValue> take(ValueId id, uint64_t* paid = nullptr);
  Result<Answer> take_answer(ValueId id);
  // Internal: no step has made it.
  Result<const HostTensor*> tensor(ValueId id) const;

 private:
  Status run_program(const Section& section, bool keeps);
  // Once for each group of rows; what is kept of its results are copies in any case.
  Status run_groups(const Section& section, const std::vector<RowGroup>& groups);
  // Puts the rows of one group where they belong among `count`.
  Status add_group(const Section& section, const RowGroup& group, const std::vector<NamedTensor>& results, int64_t count);
  Status run_step(const Step& step);
  Status find_text(const Step& step, const TextBoxes& what, const HostTensor& map);
  const std::vector<std::string>& lines(const std::string& name) const;

  const Pipeline& p_;
  const RunContext context_;
  std::vector<RunValue> values_;
  std::vector<uint64_t> paid_;  // bytes of the budget for each value that is a copy of a program's result
};

// The results of the step, in its order, for lists of equal length.
Result<std::vector<RunValue>> run_for_each(const ForEach& each, const std::vector<Tensors>& lists, const RunContext& context);

}  // namespace mlc::pipeline
