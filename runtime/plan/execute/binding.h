// A function bound to one set of input shapes: every size a number, every operand list laid out for the kernels.
// Internal to the executor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/execute/executor.h"
#include "runtime/plan/execute/pace.h"
#include "runtime/plan/execute/profile.h"
#include "runtime/plan/execute/ranges.h"
#include "runtime/plan/memory_budget.h"

namespace mlc::exec {

// Turns of launches (plan.h) that one binding has as steps of their own: where there are more, workers share tiles whole.
constexpr uint32_t kMostBoundTurns = 1 << 14;
constexpr uint64_t kMovedPiece = 1 << 20;  // bytes that are copied between two looks at the meter

// One instruction, or a turn of one that workers make together, with its operands as ranges of the binding's arrays.
struct BoundInstr {
  InstrOp op = InstrOp::None;
  uint32_t instr = 0;  // of the function's body
  uint32_t kernel = 0;
  uint32_t first_tile = 0, tiles = 0;
  uint32_t operands = 0;  // first of `pointers` and `lengths`
  uint32_t scalars = 0;
  uint64_t scratch_bytes = 0;  // that each worker passes to the kernel
};

constexpr uint64_t kStepBytes = sizeof(BoundInstr) + sizeof(Turn);

struct Executor::Binding {
  struct Patch {  // an operand whose address is known only at the run
    uint32_t operand = 0, port = 0;
    uint64_t offset = 0;  // of bytes, in what the port has
  };
  struct StateUse {
    uint32_t state = 0;
    uint64_t bytes = 0;
  };
  // The extents of all inputs, one after the other, then the elements that the shape program reads.
  std::vector<int64_t> key;
  struct Placed {  // what a SegmentRunner keeps for it
    virtual ~Placed() = default;
  };
  std::unique_ptr<Placed> placed;
  std::vector<int64_t> symbols;
  uint64_t arena_bytes = 0;
  std::vector<uint64_t> buffer_bytes, buffer_offsets;  // per buffer of the function
  std::vector<uint64_t> input_bytes, output_bytes;
  std::vector<std::vector<int64_t>> output_shapes;
  std::vector<StateUse> states;
  std::vector<BoundInstr> steps;          // in the order of the instructions
  std::vector<Turn> turns;                // of the steps
  std::vector<uint32_t> operand_buffers;  // the buffer behind each operand
  std::vector<void*> pointers;
  std::vector<uint64_t> lengths;
  std::vector<int64_t> scalars;
  std::vector<Patch> input_patches, output_patches;
  uint64_t scratch_bytes = 0;          // of each worker
  uint64_t generation = ~uint64_t{0};  // of the memory that `pointers` points into
  uint32_t shares = 1;                 // the most of any step: one worker does all of it where this is 1
  Pace pace;                           // of its runs
  Charge charge;                       // for all of this, but
  Charge turns_charge;                 // for the turns that are steps

  void clear();  // keeps what memory it can
};

struct Executor::FunctionState {
  std::vector<std::unique_ptr<Binding>> bindings;
  bool has_derived = false;  // the derived constants that it reads are there
  std::vector<AlignedBlock> input_copies, output_blocks;
  std::vector<void*> input_pointers, output_pointers;
  std::span<const InputArg> inputs;  // of the call
  std::span<const OutputArg> outputs;
  SegmentProfile profile;
};

// Bytes that a binding of this function takes: the same whatever the shapes are.
uint64_t binding_bytes(const Function& f);
// Turns symbols into sizes and steps for this number of workers and checks every range against what it must lie in. `b.symbols` is
// filled. No more than `most_turns` turns are steps of their own, with one worker none.
Status resolve(const Function& f, unsigned workers, uint32_t most_turns, Executor::Binding& b);
// Sets the addresses of everything but inputs and outputs.
void place(const Function& f, Executor::Binding& b, std::byte* arena, std::span<const AlignedBlock> states,
           std::span<const std::byte* const> constants);

// Tells AddressSanitizer that of the arena's memory a run may touch its buffers and nothing between them.
void expose_buffers(const Function& f, const Executor::Binding& b, const AlignedBlock& arena);

}  // namespace mlc::exec
