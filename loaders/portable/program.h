// A verified kernel of portable code, ready to run: one Step per instruction with the function that does it and the
// places of its registers in the worker's frame. Nothing here trusts the bytes; after `decode_module` every register
// number, kind, lane count, buffer number and jump is known to be right, so that steps only check addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "base/work_meter.h"
#include "schema/module_abi.h"
#include "schema/portable_code.h"

namespace mlc::portable {

struct Frame;
struct Step;
// Does one step and returns the next one, or null at the end (frame.fault says why).
using Handler = const Step* (*)(const Step*, Frame&);

struct Step {
  Handler run = nullptr;
  uint32_t dst = 0, a = 0, b = 0, c = 0;  // byte offsets of registers in the frame
  uint8_t blocks = 1;                     // vectors: groups of kBlock lanes
  uint8_t lanes = 1;                      // of dst, or of the operand where dst has one
  uint16_t array = 0;
  uint32_t cost = 0;                      // of a jump back: units of work of all steps that it jumps over
  int64_t imm = 0;
  const Step* jump = nullptr;
};

// Registers of more than one lane take whole blocks, so that loops over lanes have a constant length. The lanes beyond
// the register's own are computed and never looked at.
inline constexpr unsigned kBlock = 16;

struct BufferView {
  std::byte* data;
  uint64_t readable, writable;  // bytes
};

struct Frame {
  std::byte* registers;
  const BufferView* buffers;
  const int64_t* scalars;
  int64_t tiles[2];
  WorkMeter& meter;
  uint64_t left;  // units that were drawn from it
  int32_t fault;
};

struct Program {
  std::vector<uint8_t> param_flags;
  std::vector<uint64_t> local_bytes;
  uint16_t num_scalars = 0;
  uint64_t register_bytes = 0;
  std::vector<Step> steps;
  uint64_t cost = 0;  // units of work of all steps, each once

  // Layout of a worker's scratch: views of the buffers, local arrays, registers; all 64-byte aligned.
  uint64_t locals_offset = 0, registers_offset = 0, scratch_bytes = 0;
};

// Checks every rule of the format. An error names the kernel and the instruction.
Result<std::vector<Program>> decode_module(Bytes module);

// Runs tiles [begin, end). `launch` has one buffer per parameter and num_scalars scalars; scratch as laid out above.
// 0, a fault code, or kRunStopped of runtime/loader.h. Every step is charged to the meter before it is run: what a call
// does without a jump back when it begins, what a jump back repeats at the jump.
int32_t run_program(const Program& program, const MlrunLaunch& launch, uint32_t begin, uint32_t end, WorkMeter& meter);

// The steps, by family; null if the operation does not exist for these kinds. `vector`: more than one lane.
Handler control_handler(Op op);
Handler poll_handler();  // looks at the meter: within code that has no jumps back for long
Handler memory_handler(Op op, DType type, bool gather, bool masked, unsigned lanes);
Handler move_handler(Op op, Kind kind, bool vector);
Handler float_handler(Op op, Kind kind, bool vector);
Handler int_handler(Op op, Kind kind, bool vector);
Handler convert_handler(Op op, DType type, Kind from, Kind to, bool vector);
Handler lanes_handler(Op op, Kind kind);

}  // namespace mlc::portable
