#include "runtime/plan/profile.h"

#include <algorithm>

#include "base/checked.h"
#include "runtime/plan/binding.h"

namespace mlc::exec {
namespace {

// A figure of the plan: whoever wrote it may have written anything, and nothing depends on it.
uint64_t figure(const Executor::Binding& b, Symbol symbol) {
  return symbol == kNoSymbol || b.symbols[symbol] < 0 ? Executor::kNotKnown : static_cast<uint64_t>(b.symbols[symbol]);
}

Executor::Figures figures_of(const Instr& in, const BoundInstr& s, const Executor::Binding& b) {
  Executor::Figures out;
  out.tiles = s.tiles;
  out.workers = s.shares;
  if (in.op != InstrOp::Launch) {
    const uint64_t bytes = b.buffer_bytes[in.buffers[0]];
    out.operations = 0;
    out.read = in.op == InstrOp::Copy ? bytes : 0;
    out.written = bytes;
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

Status SegmentProfile::begin(const Function& f, unsigned workers, MemoryBudget& budget) {
  if (rows_.size() == f.body.size() && moments_.size() == f.body.size() * workers) {
    std::fill(moments_.begin(), moments_.end(), Executor::Moments());
    return ok();
  }
  // A plan has below 2^32 instructions and a pool below 2^17 workers.
  const uint64_t bytes = f.body.size() * (sizeof(Row) + workers * sizeof(Executor::Moments));
  MLC_RETURN_IF_ERROR(Charge::take(budget, "a profile", bytes, charge_));
  moments_.resize(f.body.size() * workers);
  rows_.resize(f.body.size());  // last: where these are, all is
  return ok();
}

void SegmentProfile::end(const Function& f, const Executor::Binding& binding, unsigned workers) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    const Executor::Moments& first = moments_[i];
    row.ns += first.left - first.begin;
    for (unsigned w = 0; w < workers; ++w) {
      const Executor::Moments& m = moments_[w * rows_.size() + i];
      row.waited_ns += m.left - m.done;
    }
    row.figures = figures_of(f.body[i], binding.steps[i], binding);
  }
  ++runs_;
}

Executor::ProfileEntry SegmentProfile::entry(const Function& f, uint64_t index) const {
  const Row& row = rows_[index];
  return {f.body[index].name, f.name, row.ns, runs_, row.waited_ns, f.body[index].op, f.body[index].kernel, row.figures};
}

}  // namespace mlc::exec
