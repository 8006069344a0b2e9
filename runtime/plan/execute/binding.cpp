#include "runtime/plan/execute/binding.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "runtime/memory/poison.h"
#include "runtime/plan/cut.h"

namespace mlc::exec {
namespace {

Status bad(const Function& f, const char* pattern, Pieces pieces) {
  return Status(Code::Malformed, "plan: '{}': {}", f.name, compose_pieces(pattern, pieces));
}

// Bytes of a port for these symbols; none if an extent is negative or the product overflows.
std::optional<uint64_t> port_bytes(const Port& p, const std::vector<int64_t>& symbols) {
  uint64_t bytes = bytes_of(p.dtype);
  for (Symbol s : p.shape) {
    const auto next = symbols[s] < 0 ? std::nullopt : checked_mul(bytes, static_cast<uint64_t>(symbols[s]));
    if (!next) return std::nullopt;
    bytes = *next;
  }
  return bytes;
}

Status resolve_ports(const Function& f, Executor::Binding& b) {
  const auto all = [&](const std::vector<Port>& ports, std::vector<uint64_t>& out) {
    for (const Port& p : ports) {
      const auto bytes = port_bytes(p, b.symbols);
      if (!bytes) return bad(f, "size of port '{}' is out of range", {p.name});
      out.push_back(*bytes);
    }
    return ok();
  };
  MLC_RETURN_IF_ERROR(all(f.inputs, b.input_bytes));
  MLC_RETURN_IF_ERROR(all(f.outputs, b.output_bytes));
  for (const Port& p : f.outputs) {
    auto& shape = b.output_shapes.emplace_back();
    for (Symbol s : p.shape) shape.push_back(b.symbols[s]);
  }
  return ok();
}

constexpr uint32_t kUnused = UINT32_MAX;

Status resolve_buffers(const Function& f, Executor::Binding& b) {
  if (f.num_symbols > 0) {
    const int64_t arena = b.symbols[f.arena_bytes];
    if (arena < 0) return bad(f, "size of the arena is negative", {});
    b.arena_bytes = static_cast<uint64_t>(arena);
  }
  std::vector<uint32_t> use_of;  // per state, into b.states
  for (size_t i = 0; i < f.buffers.size(); ++i) {
    const Buffer& buffer = f.buffers[i];
    const auto wrong = [&](const char* what) { return bad(f, "buffer {} {}", {i, what}); };
    if (b.symbols[buffer.bytes] < 0) return wrong("has a negative length");
    const auto bytes = static_cast<uint64_t>(b.symbols[buffer.bytes]);
    uint64_t offset = 0;
    switch (buffer.kind) {
      case BufferKind::None: break;
      case BufferKind::Input:
        if (bytes > b.input_bytes[buffer.index]) return wrong("is longer than its input");
        break;
      case BufferKind::Output:
        if (bytes > b.output_bytes[buffer.index]) return wrong("is longer than its output");
        break;
      case BufferKind::Constant:
        if (bytes > buffer.constant_bytes) return wrong("is longer than its tensor");
        break;
      case BufferKind::Derived:
        if (bytes > buffer.constant_bytes) return wrong("is longer than the derived constant");
        break;
      case BufferKind::OutputPart:
      case BufferKind::Arena: {
        if (b.symbols[buffer.offset] < 0 || b.symbols[buffer.offset] % 64 != 0)
          return wrong("starts at a negative or unaligned offset");
        offset = static_cast<uint64_t>(b.symbols[buffer.offset]);
        const bool in_arena = buffer.kind == BufferKind::Arena;
        if (!range_within(offset, bytes, in_arena ? b.arena_bytes : b.output_bytes[buffer.index]))
          return wrong(in_arena ? "reaches beyond the arena" : "reaches beyond its output");
        break;
      }
      case BufferKind::State: {
        if (buffer.index >= use_of.size()) use_of.resize(buffer.index + 1, kUnused);
        if (use_of[buffer.index] == kUnused) {
          use_of[buffer.index] = static_cast<uint32_t>(b.states.size());
          b.states.push_back({buffer.index, bytes});
        }
        uint64_t& most = b.states[use_of[buffer.index]].bytes;
        most = std::max(most, bytes);
        break;
      }
    }
    b.buffer_bytes.push_back(bytes);
    b.buffer_offsets.push_back(offset);
  }
  return ok();
}

// Workers copy disjoint parts at the same time, so ranges that lie across each other would race.
Status check_copy(const Function& f, const Executor::Binding& b, uint32_t to, uint32_t from) {
  const uint64_t bytes = b.buffer_bytes[to];
  if (bytes != b.buffer_bytes[from]) return bad(f, "a copy between buffers of different lengths", {});
  const auto memory_of = [&](uint32_t buffer) {
    const Buffer& x = f.buffers[buffer];
    return x.kind == BufferKind::OutputPart ? std::pair(BufferKind::Output, x.index) : std::pair(x.kind, x.kind == BufferKind::Arena ? 0 : x.index);
  };
  const auto memory = memory_of(to);
  if (memory != memory_of(from) || (memory.first != BufferKind::Arena && memory.first != BufferKind::Output)) return ok();
  const uint64_t low = std::min(b.buffer_offsets[to], b.buffer_offsets[from]);
  const uint64_t high = std::max(b.buffer_offsets[to], b.buffer_offsets[from]);
  return low != high && high - low < bytes ? bad(f, "a copy between buffers that overlap", {}) : ok();
}

// How many of what instructions say a binding lays out.
struct Totals {
  uint64_t operands = 0, scalars = 0;
};
Totals totals_of(const Function& f) {
  Totals t;
  for (const Instr& i : f.body) {
    t.operands += i.buffers.size();
    t.scalars += i.scalars.size();
  }
  return t;
}

// A worker's share of a copy, at least: less is not worth the waking of another.
constexpr uint64_t kSmallCopy = 16 << 10;

// The tiles of a launch in turns, each as a whole, or of every turn the chunks that workers have of all of them, whichever takes less
// time; so many turns are steps of their own then, none is 1.
Status cut_turns(const Function& f, const Instr& in, const Work& work, unsigned workers, uint32_t turns_left, Executor::Binding& b, BoundInstr& s, Chunks& chunks, uint32_t& turns) {
  const int64_t all = b.symbols[in.turns->turns], parts = b.symbols[in.turns->parts];
  if (all < 0 || parts < 0 || static_cast<uint64_t>(parts) > kMaxUnits) return bad(f, "number of turns or parts of {} is out of range", {in.name});
  int tries = 1;
  chunks = choose_chunks(work, workers, tries);
  const double nanoseconds = work.nanoseconds.value_or(static_cast<double>(all) * kLeastNanoseconds);
  if (workers > 1 && all > 1 && static_cast<uint64_t>(all) <= turns_left) {
    Work turn = work;
    turn.axes[turn.num_axes++] = {static_cast<uint64_t>(parts), 0};
    turn.nanoseconds = nanoseconds / static_cast<double>(all);
    const Chunks shared = choose_chunks(turn, workers, tries = 64);
    const auto largest_share = [&](const Chunks& c, double of_tile) {
      return nanoseconds / static_cast<double>(std::max<uint64_t>(work.tiles, 1)) * of_tile * static_cast<double>((c.tiles + c.shares - 1) / c.shares);
    };
    const double of_tile = parts > 0 ? static_cast<double>(shared.of[0]) / static_cast<double>(parts) : 1;
    const bool fits = shared.tiles * static_cast<uint64_t>(all) <= INT32_MAX;  // both below 2^31
    if (fits && largest_share(shared, of_tile) + static_cast<double>(all) * kMeetingNanoseconds < largest_share(chunks, 1)) {
      chunks = shared;
      turns = static_cast<uint32_t>(all);
      b.scalars[s.scalars + in.turns->scalar] = 1;
      b.scalars[s.scalars + in.turns->part_scalar] = static_cast<int64_t>(shared.of[0]);
      return ok();
    }
  }
  // Chunks of all turns and parts, whatever the plan says there; of none there is no tile.
  b.scalars[s.scalars + in.turns->scalar] = std::max<int64_t>(1, all);
  b.scalars[s.scalars + in.turns->part_scalar] = std::max<int64_t>(1, parts);
  if (all == 0 || parts == 0) chunks.tiles = 0;
  return ok();
}

// The tiles of a launch, and how many workers share them; puts its chunks where its kernel reads them.
Status cut_launch(const Function& f, const Instr& in, unsigned workers, int& tries, Executor::Binding& b, BoundInstr& s, Turn& turn, uint32_t turns_left, uint32_t& turns) {
  const int64_t tiles = b.symbols[in.tiles];
  if (tiles < 0 || tiles > INT32_MAX) return bad(f, "number of tiles of {} is out of range", {in.name});
  Work work{static_cast<uint64_t>(tiles), {}, 0, std::nullopt};
  for (const Cut& cut : in.cuts) {
    const int64_t units = b.symbols[cut.units];
    if (units < 0 || static_cast<uint64_t>(units) > kMaxUnits) return bad(f, "number of units of {} is out of range", {in.name});
    work.axes[work.num_axes++] = {static_cast<uint64_t>(units), static_cast<double>(b.symbols[cut.bytes])};
  }
  if (in.work != kNoSymbol) work.nanoseconds = static_cast<double>(b.symbols[in.work]);
  Chunks chunks;
  if (in.turns) MLC_RETURN_IF_ERROR(cut_turns(f, in, work, workers, turns_left, b, s, chunks, turns));
  else chunks = choose_chunks(work, workers, tries);
  for (size_t k = 0; k < in.cuts.size(); ++k) b.scalars[s.scalars + in.cuts[k].scalar] = static_cast<int64_t>(chunks.of[k]);
  s.tiles = static_cast<uint32_t>(chunks.tiles);
  turn.shares = chunks.shares;
  return ok();
}

Status resolve_steps(const Function& f, unsigned workers, uint32_t turns_left, Executor::Binding& b) {
  const Totals totals = totals_of(f);
  b.steps.reserve(f.body.size());
  b.turns.reserve(f.body.size());
  b.operand_buffers.reserve(totals.operands);
  b.lengths.reserve(totals.operands);
  b.scalars.reserve(totals.scalars);
  b.shares = 1;
  int tries = kTriesOfBinding;
  std::vector<uint32_t> first(1, 0);  // step of each instruction; one more
  for (const Instr& in : f.body) {
    BoundInstr s;
    s.op = in.op;
    s.instr = static_cast<uint32_t>(first.size() - 1);
    Turn turn{first[in.after], 1};
    uint32_t turns = 1;
    s.kernel = in.kernel;
    s.operands = static_cast<uint32_t>(b.operand_buffers.size());
    s.scalars = static_cast<uint32_t>(b.scalars.size());
    for (uint32_t buffer : in.buffers) {
      const auto operand = static_cast<uint32_t>(b.operand_buffers.size());
      if (f.buffers[buffer].kind == BufferKind::Input) b.input_patches.push_back({operand, f.buffers[buffer].index});
      if (f.buffers[buffer].kind == BufferKind::Output || f.buffers[buffer].kind == BufferKind::OutputPart)
        b.output_patches.push_back({operand, f.buffers[buffer].index, b.buffer_offsets[buffer]});
      b.operand_buffers.push_back(buffer);
      b.lengths.push_back(b.buffer_bytes[buffer]);
    }
    for (Symbol symbol : in.scalars) b.scalars.push_back(b.symbols[symbol]);
    if (in.scratch != kNoSymbol) {
      if (b.symbols[in.scratch] < 0) return bad(f, "scratch of {} is negative", {in.name});
      s.scratch_bytes = static_cast<uint64_t>(b.symbols[in.scratch]);
    }
    if (in.op == InstrOp::Launch) MLC_RETURN_IF_ERROR(cut_launch(f, in, workers, tries, b, s, turn, turns_left, turns));
    else turn.shares = static_cast<uint32_t>(std::clamp<uint64_t>(b.buffer_bytes[in.buffers[0]] / kSmallCopy, 1, workers));
    if (in.op == InstrOp::Copy) MLC_RETURN_IF_ERROR(check_copy(f, b, in.buffers[0], in.buffers[1]));
    b.shares = std::max(b.shares, turn.shares);
    if (turns > 1) {
      turns_left -= turns;
      b.steps.reserve(b.steps.size() + turns + f.body.size() - first.size());
      b.turns.reserve(b.steps.capacity());
    }
    for (uint32_t t = 0; t < turns; ++t) {
      b.steps.push_back(s);
      b.turns.push_back(turn);
      s.first_tile += s.tiles;
      turn.after = static_cast<uint32_t>(b.steps.size());
    }
    first.push_back(static_cast<uint32_t>(b.steps.size()));
  }
  b.pointers.resize(b.operand_buffers.size());
  return ok();
}

}  // namespace

void Executor::Binding::clear() {
  const bool had_turns = !steps.empty() && steps.back().instr + 1 < steps.size();
  if (had_turns) std::vector<BoundInstr>().swap(steps), std::vector<Turn>().swap(turns);  // which are charged no longer
  for (auto* numbers : {&key, &symbols, &scalars}) numbers->clear();
  for (auto* sizes : {&buffer_bytes, &buffer_offsets, &input_bytes, &output_bytes, &lengths}) sizes->clear();
  output_shapes.clear();
  states.clear();
  steps.clear();
  turns.clear();
  operand_buffers.clear();
  pointers.clear();
  input_patches.clear();
  output_patches.clear();
  pace = {};
  turns_charge = {};
  placed.reset();
  arena_bytes = scratch_bytes = 0;
  generation = ~uint64_t{0};
}

uint64_t binding_bytes(const Function& f) {
  using B = Executor::Binding;
  const Totals t = totals_of(f);
  uint64_t key = f.elements.size(), extents = 0;
  for (const Port& p : f.inputs) key += p.shape.size();
  for (const Port& p : f.outputs) extents += p.shape.size();
  // Every factor is below 200, every count below 2^32: no overflow. Vectors that grow item by item have up to twice the room.
  const uint64_t numbers = key + f.num_symbols + extents + 2 * f.buffers.size() + f.inputs.size() + f.outputs.size();
  return sizeof(B) + 2 * sizeof(int64_t) * numbers + f.outputs.size() * sizeof(std::vector<int64_t>) +
         2 * f.buffers.size() * sizeof(B::StateUse) + f.body.size() * kStepBytes +
         t.operands * (sizeof(uint32_t) + sizeof(void*) + sizeof(uint64_t) + 2 * sizeof(B::Patch)) +
         t.scalars * sizeof(int64_t);
}

Status resolve(const Function& f, unsigned workers, uint32_t most_turns, Executor::Binding& b) {
  MLC_RETURN_IF_ERROR(resolve_ports(f, b));
  MLC_RETURN_IF_ERROR(resolve_buffers(f, b));
  return resolve_steps(f, workers, most_turns, b);
}

void place(const Function& f, Executor::Binding& b, std::byte* arena, std::span<const AlignedBlock> states,
           std::span<const std::byte* const> constants) {
  for (size_t i = 0; i < b.operand_buffers.size(); ++i) {
    const uint32_t buffer = b.operand_buffers[i];
    switch (f.buffers[buffer].kind) {
      case BufferKind::None:
      case BufferKind::Input:
      case BufferKind::Output:
      case BufferKind::OutputPart: break;  // per run
      case BufferKind::Constant:
      case BufferKind::Derived: b.pointers[i] = const_cast<std::byte*>(constants[buffer]); break;
      case BufferKind::Arena: b.pointers[i] = arena + b.buffer_offsets[buffer]; break;
      case BufferKind::State: b.pointers[i] = states[f.buffers[buffer].index].data(); break;
    }
  }
}

void expose_buffers(const Function& f, const Executor::Binding& b, const AlignedBlock& arena) {
  if constexpr (kAddressSanitizer) {
    expose(arena.data(), 0, arena.size());
    for (size_t i = 0; i < f.buffers.size(); ++i)
      if (f.buffers[i].kind == BufferKind::Arena)
        expose(arena.data() + b.buffer_offsets[i], b.buffer_bytes[i], b.buffer_bytes[i]);
  }
}

}  // namespace mlc::exec
