// Runs programs: functions of a plan that consist of steps over values whose sizes the run decides. Internal to the
// executor, which binds and runs the segments that steps call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/execute/executor.h"
#include "runtime/plan/string_table.h"
#include "runtime/plan/value.h"

namespace mlc::exec {

// Arrays and lists in lists among the results of a run, all together: an item counts as often as lists name it, because
// the consumer of the results sees it as often.
inline constexpr uint64_t kMaxListedItems = 1 << 20;

class ProgramRunner {
 public:
  ProgramRunner(Executor& executor, const Plan& plan, const Limits& limits, MemoryBudget& budget);

  // See Executor::run. Arguments are checked. Results stay until the next run unless the caller has brought memory.
  Status run(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs);
  void trim() { pool_.trim(); }

 private:
  // Scanned values of a loop: slices one behind the other in a block that doubles.
  struct Scan {
    Value buffer;
    uint64_t slice_bytes = 0;
  };
  // One activation of a program. There is one for each depth at which programs can stand in each other, kept with the
  // memory of its vectors. Values must be gone before the pool is.
  struct Frame {
    explicit Frame(BlockPool& pool)
        : values(pool), args(pool), results(pool), body_args(pool), body_results(pool), scans(pool) {}
    PoolArray<Value> values;
    PoolArray<Value> args, results;            // of the step that runs
    PoolArray<Value> body_args, body_results;  // of a loop's iteration
    PoolArray<Scan> scans;
    void clear();
  };

  // Recursion: call -> step -> loop -> call once for each level of programs, at most kMaxCallDepth as decode_plan
  // has made sure, whatever the values are. `args` are consumed.
  Status call(uint32_t function, std::span<Value> args, std::span<Value> results, uint32_t depth);
  Status call_segment(uint32_t function, std::span<Value> args, std::span<Value> results);
  Status prepare(const Step& s, Frame& frame);
  Status step(const Step& s, Frame& frame, uint32_t depth);
  // Both of step i of a program, which is named where it fails.
  Status make(const Function& program, size_t i, Frame& frame, uint32_t depth);
  // Does the fixed steps of a program in its first run. What they made stays until another program that has such steps runs.
  Status keep_fixed(uint32_t function);
  Status loop(const Step& s, Frame& frame, uint32_t depth);
  Status collect(Scan& scan, const Value& slice, int64_t iteration, int64_t trips);
  Status no_iterations(const Step& s, Frame& frame, size_t scanned, Value& out);
  void shape_of_result(uint32_t function, size_t output, std::span<int64_t> shape);
  void shape_of_value(const Function& program, uint32_t value, std::span<int64_t> shape);
  // A step or an iteration begins.
  Status tick();
  // Charges the run for what takes longer than a step: to be called before every piece of work of some milliseconds.
  Status spend(uint64_t units) { return work_.spend(units) ? ok() : executor_.why_stopped(); }
  // memcpy, charged for. False: the run must end, see Executor::why_stopped.
  bool copy(void* to, const void* from, uint64_t bytes);

  // program_lists.cpp; results go to results[0].
  Status list_step(const Step& s, std::span<Value> args, std::span<Value> results);
  Status concat(const Step& s, const Value& list, Value& out);
  Status split(const Step& s, const Value& array, const Value& lengths, Value& out);

  // program_strings.cpp
  Status string_step(const Step& s, std::span<Value> args, std::span<Value> results);
  Status split_strings(const Step& s, const Value& texts, const Value& by, std::span<Value> results);
  Status normalize(const Step& s, const Value& texts, const Value& left_out, Value& out);
  Status from_number(const ValueNode& numbers, uint64_t at, uint64_t& out);
  Status take_strings(const InputArg& in, Value& out);
  Status retype(const Value& from, DType dtype, Value& out);
  Status rank_strings(const Value& texts, Value& out);
  Status give_strings(Value& value);  // Text elements for their numbers

  // program_services.cpp
  Status host_step(const Step& s, std::span<Value> args, std::span<Value> results);

  void view(std::span<const Value> values);  // as inputs_
  Status take_input(const Port& port, uint8_t depth, const InputArg& in, Value& out);
  Status give_output(const Port& port, const Value& value, OutputArg& out);
  Status list_items(std::span<const OutputArg> outputs);
  void describe(const Value& value, OutputArg& out);

  Executor& executor_;
  const Plan& plan_;
  const uint64_t max_steps_;
  uint64_t steps_left_ = 0;
  WorkAccount work_;
  BlockPool pool_;
  StringTable strings_{pool_, work_};
  std::vector<Frame> frames_;
  uint32_t kept_of_ = kNoFunction;  // whose fixed steps have been done
  PoolArray<Value> kept_{pool_};    // Function::kept of that
  PoolArray<Value> main_args_{pool_}, main_results_{pool_};
  // Of the segment that is being called; segments call nothing.
  std::vector<InputArg> inputs_;
  std::vector<OutputArg> outputs_;
  PoolArray<OutputArg> listed_{pool_};  // items of lists among the results of the last run
  uint64_t listed_used_ = 0;
};

// The number in an array of one i64 or i32 (trip counts, positions, lengths), the truth in one of bool.
Status read_number(const Value& array, std::string_view what, int64_t& out);
Status read_condition(const Value& array, bool& out);

}  // namespace mlc::exec
