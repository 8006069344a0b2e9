#include "runtime/plan/execute/profile.h"

#include <algorithm>

#include "base/checked.h"
#include "base/system/clock.h"
#include "runtime/plan/execute/binding.h"

namespace mlc::exec {
namespace {

// A figure of the plan: it may be any number, and nothing depends on it.
uint64_t figure(const Executor::Binding& b, Symbol symbol) {
  return symbol == kNoSymbol || b.symbols[symbol] < 0 ? Executor::kNotKnown : static_cast<uint64_t>(b.symbols[symbol]);
}

Executor::Figures figures_of(const Instr& in, const BoundInstr& s, const Turn& turn, const Executor::Binding& b) {
  Executor::Figures out;
  out.tiles = s.tiles;
  out.workers = turn.shares;
  if (in.op != InstrOp::Launch) {
    const uint64_t bytes = b.buffer_bytes[in.buffers[0]];
    out.operations = 0;
    out.read = out.written = bytes;
    return out;
  }
  out.operations = figure(b, in.operations);
  out.read = figure(b, in.read);
  out.written = figure(b, in.written);
  out.of_bytes = in.of_bytes;
  out.num_cuts = static_cast<uint32_t>(in.cuts.size());
  for (size_t k = 0; k < in.cuts.size(); ++k) {
    out.units[k] = static_cast<uint64_t>(b.symbols[in.cuts[k].units]);  // resolve has looked at it
    out.chunks[k] = static_cast<uint64_t>(b.scalars[s.scalars + in.cuts[k].scalar]);
  }
  return out;
}

}  // namespace

Status SegmentProfile::begin(const Function& f, unsigned ranges, MemoryBudget& budget) {
  if (rows_.size() == f.body.size() && moments_.size() == f.body.size() * ranges) {
    std::fill(moments_.begin(), moments_.end(), Executor::Moments());
    return ok();
  }
  // A plan has below 2^32 instructions and a pool below 2^17 ranges.
  const uint64_t bytes = f.body.size() * (sizeof(Row) + ranges * sizeof(Executor::Moments));
  MLC_RETURN_IF_ERROR(Charge::take(budget, "a profile", bytes, charge_));
  moments_.resize(f.body.size() * ranges);
  rows_.resize(f.body.size());  // last: where these are, all is
  return ok();
}

void SegmentProfile::end(const Function& f, const Executor::Binding& binding, unsigned ranges) {
  const uint64_t ended = now_ns();
  for (unsigned r = 0; r < ranges; ++r) {
    uint64_t next = ended;
    for (size_t i = rows_.size(); i-- > 0;) {
      Executor::Moments& m = of(r)[i];
      if (m.begin == 0) continue;
      if (m.left == 0) m.left = next;  // a device has said itself when it was done: the copies behind are none of the last launch's
      next = m.begin;
      rows_[i].waited_ns += m.left - m.done;
      if (r == 0) rows_[i].ns += m.left - m.begin;
    }
  }
  for (size_t k = 0; k < binding.steps.size(); ++k)
    rows_[binding.steps[k].instr].figures = figures_of(f.body[binding.steps[k].instr], binding.steps[k], binding.turns[k], binding);
  ++runs_;
}

Executor::ProfileEntry SegmentProfile::entry(const Function& f, uint64_t index) const {
  const Row& row = rows_[index];
  return {f.body[index].name, f.name, row.ns, runs_, row.waited_ns, f.body[index].op, f.body[index].kernel, row.figures};
}

}  // namespace mlc::exec
