// Runs each segment of a composed plan where it has its place. What passes between segments is on the host, as values of programs
// do, so a part that reads what another one wrote copies it from there.
//
// What a device cannot do, and everything once it is lost, runs on the first part that can from then on: all of them have the
// code of all segments.
//
// A part has an executor of its own, with its own arena, bindings and derived constants; states are those of the executor of the composed
// plan, and are brought to the part that needs them for each run.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/ensemble/ensemble.h"
#include "runtime/ensemble/rows.h"
#include "runtime/plan/execute/segment_runner.h"
#include "runtime/threads/worker_pool.h"

namespace mlc::ensemble {

// Where a function runs.
struct Place {
  enum class How : uint8_t {
    On,     // on `part`
    First,  // on the part that is expected to be done with it first
    Rows,   // on several at once, each with some of the rows
  };
  How how = How::On;
  uint32_t part = 0;
  std::vector<uint8_t> may = {};  // First, Rows: for each part, whether it takes a share
  // Rows only. Shares follow from the number of rows alone, so that equal requests have equal answers.
  std::vector<RowCost> costs = {};              // of each part
  Rows rules = {};                              // `count` is that of the request
  std::vector<uint8_t> has_rows = {};           // for each input: its first axis are the rows; that of all outputs is
  std::vector<uint64_t> shares = {};            // of the last request, if its rows were rules.count
};

class PartsRunner final : public exec::SegmentRunner {
 public:
  // `places`: of each function of the plan, which is composed of that of the first part.
  // `is_shared`: other sessions use the ensemble, so its parts keep no states between calls.
  // `tell`: a line for people whenever a function moves.
  static Result<std::unique_ptr<PartsRunner>> create(std::shared_ptr<Ensemble> ensemble, std::vector<Place> places, bool is_shared,
                                                     std::function<void(const std::string&)> tell);

  // For the executor of the composed plan, which works on the thread of its caller: that thread counts as a worker of the part
  // that it waits for, and not here as well.
  WorkerPool& pool() { return *pool_; }

  // All parts and the executor of the composed plan, which is this one's, hold no more than `limit` bytes together. `at_once`: how
  // many parts may have a request at one time.
  void share_memory(exec::MemoryBudget& front, uint64_t limit, uint64_t at_once) { front_ = &front, memory_ = {limit, 0, at_once}; }

  const KernelSet& kernels() const override { return parts().front().executor->kernels(); }
  size_t num_parts() const { return parts().size(); }
  Status run(const exec::SegmentCall& call) override;
  uint64_t arena_bytes() const override;
  uint64_t state_bytes(uint32_t state) const override;
  Result<Bytes> read_state(uint32_t state) override;
  void drop_state(uint32_t state) override;

 private:
  // Some rows of a call, or all of it; with what the executor of a part is asked.
  struct Piece {
    uint64_t first = 0, rows = 0;  // of `of`; of 0: all of it, whatever it has
    uint64_t of = 0;
    uint32_t part = 0;             // that is asked first, unless a First
    std::vector<exec::InputArg> inputs;
    std::vector<exec::OutputArg> outputs;
    std::vector<int64_t> extents;
    std::vector<uint8_t> tried, may;
    Status status;
  };
  struct PieceJob;

  // A state that no call has used is zeros.
  struct State {
    exec::Executor* home = nullptr;  // of the part that has it; null: `copy` is its value
    std::vector<std::byte> copy;
  };

  PartsRunner(std::shared_ptr<Ensemble> ensemble, std::vector<Place> places, bool is_shared, std::unique_ptr<WorkerPool> pool,
              std::function<void(const std::string&)> tell);
  const std::vector<Part>& parts() const { return ensemble_->parts(); }

  Status run_there(const exec::SegmentCall& call);
  Status run_by_rows(const exec::SegmentCall& call, Place& place);
  Status run_piece(const exec::SegmentCall& call, Piece& piece);
  void ask(const exec::SegmentCall& call, Piece& piece);  // where it may run now
  Status run_on(const Part& part, const exec::SegmentCall& call, Piece& piece);
  void fill_arguments(const exec::SegmentCall& call, Piece& piece);
  // To another part than the one that failed, for `why`; false: there is none. `is_news`: it was lost just now.
  bool move(const exec::SegmentCall& call, Piece& piece, uint32_t from, const Status& why, bool is_news);
  bool is_there(uint32_t part, const Piece& piece) const { return !piece.tried[part] && !ensemble_->is_lost(part); }
  Status bring_states(const exec::SegmentCall& call, exec::Executor& to);
  Status keep_states(const exec::SegmentCall& call, exec::Executor& from);

  const std::unique_ptr<WorkerPool> pool_;
  const std::shared_ptr<Ensemble> ensemble_;
  std::mutex mu_;              // pieces of one call run at once
  std::vector<Place> places_;  // changed with mu_ held
  const std::function<void(const std::string&)> tell_;  // guarded by mu_
  const bool is_shared_;                                // parts keep no states of this session
  std::vector<State> states_;
  exec::MemoryBudget* front_ = nullptr;  // null: memory is not shared
  MemoryTogether memory_;
  std::vector<Piece> pieces_ = std::vector<Piece>(1);   // kept for their memory
};

}  // namespace mlc::ensemble
