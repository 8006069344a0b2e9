// A plan as checked values: what `decode_plan` makes of the bytes of a plan segment.
//
// In a decoded plan every index is in range, every symbol is written exactly once, before it is read, and read as the
// type it was written with; buffers that instructions write to are writable ones; ports fit their buffers. What depends
// on the values of symbols (sizes, offsets, tile counts) is checked when shapes are bound.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/text/text.h"
#include "schema/format.h"
#include "schema/steps.h"

namespace mlc::exec {

// Numbers of schema/plan.fbs; a test compares them.
enum class SymbolOp : uint8_t {
  None = 0, Const, InputDim, Add, Sub, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Eq, Ne, Lt, Le, And, Or, Not, Select,
  ToDouble, FAdd, FSub, FMul, FDiv, FFloor, FCeil, FRint, FTrunc, FMin, FMax, FLt, FLe, FConst, FSqrt, FRoundF32,
  InputElement,
};
inline constexpr uint8_t kLastSymbolOp = static_cast<uint8_t>(SymbolOp::InputElement);
enum class BufferKind : uint8_t { None = 0, Input, Output, Constant, Arena, State, Derived, OutputPart };
inline constexpr uint8_t kLastBufferKind = static_cast<uint8_t>(BufferKind::OutputPart);
enum class InstrOp : uint8_t { None = 0, Launch, Copy };
inline constexpr uint8_t kLastInstrOp = static_cast<uint8_t>(InstrOp::Copy);

inline constexpr uint32_t kNoValue = UINT32_MAX;  // an operand that is absent, a result without a consumer
inline constexpr uint32_t kMaxCallDepth = 64;     // functions that stand in each other
inline constexpr uint64_t kMaxDerivedBytes = uint64_t{1} << 46;
inline constexpr uint32_t kNoFunction = UINT32_MAX;
inline constexpr uint8_t kMaxListDepth = format::kMaxListDepth;

using Symbol = uint32_t;  // index into the symbols of a function
inline constexpr Symbol kNoSymbol = UINT32_MAX;
inline constexpr size_t kMaxCuts = 3;  // of one launch

struct SymbolInstr {
  SymbolOp op = SymbolOp::None;
  Symbol dst = 0;
  uint32_t a = 0, b = 0, c = 0;  // symbols; for InputDim and InputElement a and b are input and axis, or element
  int64_t imm = 0;
};

struct Check {
  Symbol condition = 0;
  uint32_t after = 0;  // symbol instructions that come before it; checks are sorted by this
  std::string message;
};

struct Buffer {
  BufferKind kind = BufferKind::None;
  DType dtype = DType::None;
  uint32_t index = 0;
  uint32_t copy = 0;
  Symbol bytes = 0;
  Symbol offset = 0;            // Arena and OutputPart only
  uint64_t constant_bytes = 0;  // Constant and Derived only: length of the tensor's copy, of the derived constant
  bool derives = false;         // Derived only: of the function that computes it

  bool writable() const {
    return kind == BufferKind::Output || kind == BufferKind::OutputPart || kind == BufferKind::Arena || kind == BufferKind::State || derives;
  }
};

// An axis along which a launch is cut into tiles of `chunk` quanta; the chunk is chosen when shapes are bound (cut.h).
struct Cut {
  Symbol units = 0;
  uint32_t scalar = 0;  // of the launch, where the chunk is put
  Symbol bytes = 0;     // read for each quantum
};

// Turns of a launch that several workers may make together, each some of the parts of a tile: one worker has all of a tile where both
// scalars are what their symbols say.
struct Turns {
  Symbol turns = 0;
  uint32_t scalar = 0;  // of the launch, where turns of a chunk are put
  Symbol parts = 0;
  uint32_t part_scalar = 0;
};

struct Instr {
  InstrOp op = InstrOp::None;
  uint32_t kernel = 0;
  std::vector<uint32_t> buffers;
  std::vector<Symbol> scalars;
  Symbol tiles = 0;             // apart from cuts
  std::vector<Cut> cuts;        // at most kMaxCuts
  std::optional<Turns> turns;   // without cuts
  Symbol work = kNoSymbol;      // nanoseconds that the launch takes one worker, roughly
  Symbol scratch = kNoSymbol;   // bytes of scratch behind those of the kernel's entry
  Symbol operations = kNoSymbol, read = kNoSymbol, written = kNoSymbol;  // for profiles; bytes of buffers
  bool of_bytes = false;        // mostly products of 8 bits
  Symbol steps = kNoSymbol;     // of a device: turns that the loops of a lane make at most; kNoSymbol: any number
  uint32_t after = 0;           // no part of it begins before the first so many instructions are done; at most its own number
  std::string name;
};

struct Port {
  std::string name;
  DType dtype = DType::None;
  uint32_t buffer = 0;         // not in programs
  std::vector<Symbol> shape;   // none for lists and for outputs of programs
  // Programs only:
  uint8_t list_depth = 0;      // 0: an array
  uint32_t value = 0;
  uint32_t rank = 0;           // of outputs that are arrays

  // Axes of an array that goes through this port.
  size_t axes() const { return shape.empty() ? rank : shape.size(); }
};

// What a step of a program does: see schema/plan.fbs and spec/plan.md. Types of values are known from their writers, so
// operands are of the types that the operation takes.
struct Step : StepSettings {
  StepOp op = StepOp::None;
  std::vector<uint32_t> functions;        // of the plan, larger than the one the step stands in
  std::vector<uint32_t> inputs, outputs;  // values or kNoValue
  uint32_t carried = 0;                   // Loop
  DType dtype = DType::None;              // ListMake without inputs: type of the list
  uint8_t list_depth = 0;
  std::string service, options;           // Host; no byte of the options is 0
  std::vector<int64_t> results;           // Host, for each: element type, number of axes, extents (-1: dynamic)
  std::string name;
  // Made by decode_plan. Of inputs: the value is not read after this, so that its memory may be reused. Of outputs: it
  // is read at all. `fixed`: what it makes follows from no input, so it is the same in every run.
  std::vector<uint8_t> last, wanted;
  bool fixed = false;
};

// Either a segment, which launches kernels over arrays whose extents follow from those of its inputs (and from elements
// of them), or a program, which calls other functions over values whose sizes the run decides.
struct Function {
  std::string name;
  uint32_t num_symbols = 0;
  std::vector<SymbolInstr> shape;
  std::vector<Check> checks;
  std::vector<Port> inputs, outputs;
  std::vector<Buffer> buffers;
  Symbol arena_bytes = 0;
  std::vector<Instr> body;
  uint32_t num_values = 0;
  std::vector<Step> steps;
  // What InputElement reads, in the order of the instructions. Made by decode_plan.
  struct ElementRead { uint32_t input = 0, element = 0; };
  std::vector<ElementRead> elements;
  // What fixed steps make and other steps, or callers, read. Made by decode_plan.
  std::vector<uint32_t> kept;

  bool is_program() const { return num_values > 0; }
};

struct Plan {
  std::vector<Function> functions;  // sorted by name, names are unique
  uint32_t num_states = 0;          // one more than the largest state index used
  uint32_t call_depth = 0;          // of programs in each other, segments not counted; at most kMaxCallDepth
  std::vector<uint64_t> derived;    // bytes of each derived constant; their sum is below kMaxDerivedBytes
  uint32_t derive = kNoFunction;    // computes them; kNoFunction if there are none

  // Index of a function; none if there is no such one.
  std::optional<uint32_t> find(std::string_view name) const;
};

// What the rest of the container holds, for the range checks of a plan's references.
struct PlanContext {
  uint32_t num_kernels = 0;
  // Length in bytes of a copy of a tensor; none if there is no such one.
  std::function<std::optional<uint64_t>(uint32_t tensor, uint32_t copy)> constant_bytes;
};

// The rules about steps, for a plan whose functions are checked one by one; fills in what is said to be made by
// decode_plan, which calls this (plan_programs.cpp).
Status check_programs(Plan& plan);

// Leaves the functions that these of its programs consist of, and the one that derives constants. For parts of a file that are run apart.
void keep_programs(Plan& plan, std::span<const std::string_view> names);

// Malformed with the function and item, if the bytes break any rule.
Result<Plan> decode_plan(Bytes bytes, const PlanContext& context);

}  // namespace mlc::exec
