#include "runtime/ensemble/parts_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/compose.h"

namespace mlc::ensemble {

PartsRunner::PartsRunner(std::shared_ptr<Ensemble> ensemble, std::vector<Place> places, bool is_shared, std::unique_ptr<WorkerPool> pool,
                         std::function<void(const std::string&)> tell)
    : pool_(std::move(pool)), ensemble_(std::move(ensemble)), places_(std::move(places)), tell_(std::move(tell)), is_shared_(is_shared),
      states_(parts().front().plan->num_states) {}

Result<std::unique_ptr<PartsRunner>> PartsRunner::create(std::shared_ptr<Ensemble> ensemble, std::vector<Place> places, bool is_shared,
                                                         std::function<void(const std::string&)> tell) {
  PoolOptions alone;
  alone.workers = 1;
  MLC_ASSIGN(auto pool, WorkerPool::create(alone));
  return std::unique_ptr<PartsRunner>(new PartsRunner(std::move(ensemble), std::move(places), is_shared, std::move(pool), std::move(tell)));
}

uint64_t PartsRunner::arena_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts()) bytes += part.executor->arena_bytes();
  return bytes;
}

uint64_t PartsRunner::state_bytes(uint32_t state) const {
  const State& s = states_[state];
  return s.home ? s.home->state_bytes(state) : s.copy.size();
}

Result<Bytes> PartsRunner::read_state(uint32_t state) {
  State& s = states_[state];
  if (s.home) return s.home->state(state);
  return Bytes(s.copy);
}

void PartsRunner::drop_state(uint32_t state) { states_[state] = State(); }

Status PartsRunner::bring_states(const exec::SegmentCall& call, exec::Executor& to) {
  std::vector<std::optional<Bytes>> values(to.num_states());
  for (const auto& use : call.binding.states) {
    if (const AlignedBlock& newest = call.states[use.state]; newest.data()) {
      values[use.state] = Bytes(newest.data(), static_cast<size_t>(newest.size()));
    } else if (states_[use.state].home != &to) {
      MLC_ASSIGN(values[use.state], read_state(use.state));
    }
  }
  return to.set_states(values);
}

Status PartsRunner::keep_states(const exec::SegmentCall& call, exec::Executor& from) {
  for (const auto& use : call.binding.states) {
    State& s = states_[use.state];
    if (!is_shared_) {
      s.home = &from;
      continue;
    }
    // The next turn on the part may be another session's.
    MLC_ASSIGN(const Bytes value, from.state(use.state));
    s.copy.assign(value.begin(), value.end());
  }
  return ok();
}

Status PartsRunner::run(const exec::SegmentCall& call) {
  // Each part derives its constants by itself, before the first segment of its own that reads them.
  if (call.number == parts().front().plan->derive) return ok();
  if (front_) memory_.held = front_->held;
  Status status = run_there(call);
  if (front_) front_->limit = std::max(front_->held, memory_.limit - std::min(memory_.limit, ensemble_->held()));
  return status;
}

Status PartsRunner::run_there(const exec::SegmentCall& call) {
  Place& place = places_[call.number];
  if (place.how == Place::How::Rows && call.binding.states.empty()) return run_by_rows(call, place);
  Piece& all = pieces_.front();
  all.first = all.rows = all.of = 0;
  return run_piece(call, all);
}

void PartsRunner::ask(const exec::SegmentCall& call, Piece& piece) {
  const std::lock_guard lock(mu_);
  Place& place = places_[call.number];
  piece.may.assign(parts().size(), 0);
  if (place.how == Place::How::First) {
    for (uint32_t p = 0; p < piece.may.size(); ++p) piece.may[p] = place.may[p] && is_there(p, piece);
    if (std::find(piece.may.begin(), piece.may.end(), uint8_t{1}) != piece.may.end()) return;
    // None of the intended parts: any that is there.
    for (uint32_t p = 0; p < piece.may.size(); ++p) piece.may[p] = is_there(p, piece);
    if (std::find(piece.may.begin(), piece.may.end(), uint8_t{1}) != piece.may.end()) return;
  }
  uint32_t part = piece.of > 0 ? piece.part : place.part;
  // Another session has lost it, or another piece has.
  for (uint32_t p = 0; ensemble_->is_lost(part) && p < piece.may.size(); ++p)
    if (is_there(p, piece)) part = p;
  piece.may[part] = 1;
}

Status PartsRunner::run_piece(const exec::SegmentCall& call, Piece& piece) {
  piece.tried.assign(parts().size(), 0);
  fill_arguments(call, piece);
  for (;;) {
    ask(call, piece);
    auto turn = ensemble_->wait(call.number, piece.may, call.meter, memory_);
    if (!turn) return ok();  // the executor reports why
    Status status = run_on(**turn, call, piece);
    if (status.ok() && piece.of == 0) turn->succeeded();
    // Values are on the host, as they were. States are with the part that had them, which says so where it has lost them, or here.
    const bool may_move = status.code == Code::Unsupported || status.code == Code::Resource;
    if (!may_move || call.meter.why() != WorkMeter::Stop::None) return status;
    const uint32_t part = turn->part();
    const bool is_news = !(**turn).is_alive() && ensemble_->lose(part);
    turn.reset();
    if (!move(call, piece, part, status, is_news)) return status;
  }
}

bool PartsRunner::move(const exec::SegmentCall& call, Piece& piece, uint32_t from, const Status& why, bool is_news) {
  piece.tried[from] = 1;
  if (!parts()[from].device) return false;
  const std::lock_guard lock(mu_);
  Place& place = places_[call.number];
  uint32_t to = 0;
  while (to < parts().size() && !is_there(to, piece)) ++to;
  if (to == parts().size()) return false;
  piece.part = to;
  if (ensemble_->is_lost(from)) {
    for (Place& p : places_) {
      p.shares.clear();
      if (p.how == Place::How::On && p.part == from) p.part = to;
    }
    if (is_news) tell_(compose("{} goes on in place of {}: {}", parts()[to].name, parts()[from].name, why.message));
    return true;
  }
  bool is_first = true;  // that could not
  if (place.how == Place::How::On) place.part = to;
  else is_first = std::exchange(place.may[from], uint8_t{0}) != 0;
  place.shares.clear();
  if (is_first) tell_(compose("'{}' runs on {}: {}", call.function.name, parts()[to].name, why.message));
  return true;
}

void PartsRunner::fill_arguments(const exec::SegmentCall& call, Piece& piece) {
  const exec::Executor::Binding& bound = call.binding;
  const Place& place = places_[call.number];
  const auto part_of = [&](uint64_t bytes) { return piece.of > 0 ? bytes / piece.of * piece.rows : bytes; };
  const auto begin_of = [&](uint64_t bytes) { return piece.of > 0 ? bytes / piece.of * piece.first : 0; };
  piece.inputs.clear();
  piece.outputs.clear();
  piece.extents.assign(bound.key.begin(), bound.key.end());
  size_t axis = 0;
  for (size_t i = 0; i < call.function.inputs.size(); ++i) {
    const exec::Port& port = call.function.inputs[i];
    const bool is_cut = piece.of > 0 && place.has_rows[i];
    if (is_cut) piece.extents[axis] = static_cast<int64_t>(piece.rows);
    const uint64_t bytes = bound.input_bytes[i];
    const auto* data = static_cast<const std::byte*>(call.inputs[i]);
    piece.inputs.push_back({port.dtype, std::span<const int64_t>(piece.extents).subspan(axis, port.axes()), is_cut ? data + begin_of(bytes) : data,
                            is_cut ? part_of(bytes) : bytes});
    axis += port.axes();
  }
  for (size_t i = 0; i < call.function.outputs.size(); ++i) {
    exec::OutputArg& out = piece.outputs.emplace_back();
    out.data = static_cast<std::byte*>(call.outputs[i]) + begin_of(bound.output_bytes[i]);
    out.capacity = part_of(bound.output_bytes[i]);
  }
}

Status PartsRunner::run_on(const Part& part, const exec::SegmentCall& call, Piece& piece) {
  const bool has_states = !call.binding.states.empty();
  if (has_states) MLC_RETURN_IF_ERROR(bring_states(call, *part.executor));
  exec::RunOptions how{call.meter.cancelled(), WorkLimits()};
  if (const uint64_t limit = call.meter.limits().time_ns; limit != WorkLimits::kNone) {
    const uint64_t used = call.meter.ns_used();
    how.work->time_ns = limit > used ? limit - used : 0;
  }
  if (Status s = part.executor->run(call.number, piece.inputs, piece.outputs, how); !s.ok())
    return std::move(s).note("'{}' on {}", call.function.name, part.name);
  if (has_states) MLC_RETURN_IF_ERROR(keep_states(call, *part.executor));
  for (size_t i = 0; i < piece.outputs.size(); ++i)
    if (piece.outputs[i].bytes != piece.outputs[i].capacity)
      return Status(Code::Malformed, "'{}' gives {} bytes on {}, expected {}", call.function.outputs[i].name, piece.outputs[i].bytes, part.name, piece.outputs[i].capacity);
  return ok();
}

struct PartsRunner::PieceJob {
  PartsRunner& runner;
  const exec::SegmentCall& call;
  Piece& piece;
  std::atomic<uint32_t>& left;

  static void run(void* context) {
    auto& job = *static_cast<PieceJob*>(context);
    job.piece.status = job.runner.run_piece(job.call, job.piece);
    // Nothing is read behind this: its waiter is gone then.
    std::atomic<uint32_t>* const left = &job.left;
    left->fetch_sub(1, std::memory_order_acq_rel);
    futex_wake(left);
  }
};

Status PartsRunner::run_by_rows(const exec::SegmentCall& call, Place& place) {
  uint64_t rows = 0;
  for (size_t i = 0, axis = 0; i < call.function.inputs.size(); axis += call.function.inputs[i++].axes())
    if (place.has_rows[i]) rows = static_cast<uint64_t>(call.binding.key[axis]);
  if (place.shares.empty() || place.rules.count != rows) {
    place.rules.count = rows;
    std::vector<RowCost> costs = place.costs;
    for (uint32_t p = 0; p < costs.size(); ++p)
      if (!place.may[p] || ensemble_->is_lost(p)) costs[p].fixed_ns = kImpossible;
    place.shares = divide_rows(costs, place.rules);
  }
  uint64_t first = 0;
  size_t count = 0;
  pieces_.resize(parts().size() + 1);
  for (uint32_t p = 0; p < place.shares.size(); ++p) {
    if (place.shares[p] == 0) continue;
    Piece& piece = pieces_[count++];
    piece.first = first, piece.rows = place.shares[p], piece.of = rows, piece.part = p;
    first += piece.rows;
  }
  if (count == 0) {  // as many rows as cannot be divided
    pieces_[0].of = 0;
    return run_piece(call, pieces_[0]);
  }
  std::vector<PieceJob> jobs;
  std::atomic<uint32_t> left{static_cast<uint32_t>(count)};
  jobs.reserve(count);
  for (size_t k = 0; k < count; ++k) jobs.push_back({*this, call, pieces_[k], left});
  for (size_t k = 1; k < count; ++k)
    if (!ensemble_->runners().start(&PieceJob::run, &jobs[k]).ok()) PieceJob::run(&jobs[k]);  // no thread: one after the other
  PieceJob::run(&jobs[0]);
  for (uint32_t n = left.load(std::memory_order_acquire); n > 0; n = left.load(std::memory_order_acquire)) futex_wait(left, n);
  for (size_t k = 0; k < count; ++k) MLC_RETURN_IF_ERROR(std::move(pieces_[k].status));
  return ok();
}

}  // namespace mlc::ensemble
