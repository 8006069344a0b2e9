// Loops, conditions, faults, launch values, and the loop that runs the steps. Jumps go to steps that decoding has chosen.
#include "loaders/portable/step.h"
#include "runtime/loader.h"

namespace mlc::portable {
namespace {

const Step* loop_begin(const Step* s, Frame& f) {
  const int64_t begin = *at<int64_t>(f, s->a);
  *at<int64_t>(f, s->dst) = begin;
  return begin < *at<int64_t>(f, s->b) ? s + 1 : s->jump;
}
const Step* stop_or_refill(const Step* s, Frame& f) {
  const uint64_t drawn = f.meter.draw(s->cost - f.left, WorkMeter::kBatch + s->cost);
  if (drawn == 0) return stop(f, kRunStopped);
  f.left += drawn - s->cost;
  return s->jump;
}
const Step* jump_back(const Step* s, Frame& f) {
  if (f.left < s->cost) [[unlikely]] return stop_or_refill(s, f);
  f.left -= s->cost;
  return s->jump;
}
// Registers and imm of LoopBegin; jump: the first step of the body.
const Step* loop_end(const Step* s, Frame& f) {
  int64_t* var = at<int64_t>(f, s->dst);
  if (__builtin_add_overflow(*var, s->imm, var) || *var >= *at<int64_t>(f, s->b)) return s + 1;
  return jump_back(s, f);
}
const Step* while_begin(const Step* s, Frame& f) {
  *at<int64_t>(f, s->dst) = 0;
  return s + 1;
}
// dst and b are counter and bound of WhileBegin; jump: behind WhileEnd.
const Step* while_test(const Step* s, Frame& f) {
  if (!*at<uint8_t>(f, s->a)) return s->jump;
  int64_t* count = at<int64_t>(f, s->dst);
  if (*count >= *at<int64_t>(f, s->b)) return stop(f, MLRUN_FAULT_BOUND);
  *count = static_cast<int64_t>(static_cast<uint64_t>(*count) + 1);
  return s + 1;
}
const Step* branch(const Step* s, Frame& f) { return *at<uint8_t>(f, s->a) ? s + 1 : s->jump; }
const Step* jump(const Step* s, Frame&) { return s->jump; }
const Step* nothing(const Step* s, Frame&) { return s + 1; }
const Step* fault_if(const Step* s, Frame& f) {
  const uint8_t* a = at<uint8_t>(f, s->a);
  for (unsigned k = 0; k < s->lanes; ++k)
    if (a[k]) return stop(f, static_cast<int32_t>(s->imm));
  return s + 1;
}
const Step* scalar(const Step* s, Frame& f) {
  *at<int64_t>(f, s->dst) = f.scalars[s->imm];
  return s + 1;
}
const Step* tile(const Step* s, Frame& f) {
  *at<int64_t>(f, s->dst) = f.tiles[s->imm];
  return s + 1;
}
const Step* end(const Step*, Frame& f) { return stop(f, MLRUN_FAULT_NONE); }
const Step* poll(const Step* s, Frame& f) {
  return f.meter.poll() ? s + 1 : stop(f, kRunStopped);
}

}  // namespace

Handler poll_handler() { return poll; }

Handler control_handler(Op op) {
  switch (op) {
    case Op::LoopBegin: return loop_begin;
    case Op::LoopEnd: return loop_end;
    case Op::WhileBegin: return while_begin;
    case Op::WhileTest: return while_test;
    case Op::WhileEnd: return jump_back;
    case Op::If: return branch;
    case Op::Else: return jump;
    case Op::EndIf: return nothing;
    case Op::FaultIf: return fault_if;
    case Op::Scalar: return scalar;
    case Op::Tile: return tile;
    case Op::None: return end;  // behind the last instruction
    default: return nullptr;
  }
}

int32_t run_program(const Program& p, const MlrunLaunch& launch, uint32_t begin, uint32_t end, WorkMeter& meter) {
  auto* scratch = static_cast<std::byte*>(launch.scratch);
  auto* views = reinterpret_cast<BufferView*>(scratch);
  const size_t num_params = p.param_flags.size();
  const uint64_t cost = p.cost + num_params + p.local_bytes.size();
  const uint64_t drawn = meter.draw(cost, cost + WorkMeter::kBatch);
  if (drawn == 0) return kRunStopped;
  for (size_t k = 0; k < num_params; ++k) {
    const uint64_t length = launch.lengths[k];
    const uint64_t readable = length > UINT64_MAX - 63 ? length : (length + 63) & ~uint64_t{63};
    views[k] = {static_cast<std::byte*>(launch.buffers[k]), length == 0 ? 0 : readable,
                p.param_flags[k] & kParamWritten ? length : 0};
  }
  uint64_t offset = p.locals_offset;
  for (size_t k = 0; k < p.local_bytes.size(); ++k) {
    const uint64_t readable = (p.local_bytes[k] + 63) & ~uint64_t{63};
    views[num_params + k] = {scratch + offset, readable, p.local_bytes[k]};
    offset += readable;
  }
  Frame frame{scratch + p.registers_offset, views, launch.scalars, {begin, end}, meter, drawn - cost, MLRUN_FAULT_NONE};
  for (const Step* s = p.steps.data(); s;) s = s->run(s, frame);
  meter.give_back(frame.left);
  return frame.fault;
}

}  // namespace mlc::portable
