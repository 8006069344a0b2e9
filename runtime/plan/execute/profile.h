// What the instructions of a segment took, in every range (ranges.h), and what they did. Kept where it was asked for; nothing of it is
// there otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/execute/executor.h"
#include "runtime/plan/memory_budget.h"

namespace mlc::exec {

class SegmentProfile {
 public:
  // Before every run. The first time it takes its memory from the budget.
  Status begin(const Function& f, unsigned ranges, MemoryBudget& budget);
  // Of a range, one for each instruction: the thread that executes its part records its begin and end.
  Executor::Moments* of(unsigned range) { return moments_.data() + range * rows_.size(); }
  // After every run that did not fail: the first `ranges` took part.
  void end(const Function& f, const Executor::Binding& binding, unsigned ranges);

  uint64_t size() const { return rows_.size(); }
  Executor::ProfileEntry entry(const Function& f, uint64_t index) const;
  Executor::Moments moments(uint64_t index, unsigned range) const { return moments_[range * rows_.size() + index]; }

 private:
  struct Row {
    uint64_t ns = 0, waited_ns = 0;
    Executor::Figures figures;  // of the last run
  };
  std::vector<Row> rows_;
  std::vector<Executor::Moments> moments_;  // of the last run: of range 0, then of range 1, ...
  uint64_t runs_ = 0;
  Charge charge_;
};

}  // namespace mlc::exec
