#include "runtime/plan/execute/program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "base/counted.h"
#include "base/on_exit.h"
#include "runtime/plan/execute/binding.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kUnitsOfStep = 32;

}  // namespace

Status read_number(const Value& array, std::string_view what, int64_t& out) {
  if (array->size != bytes_of(array->dtype))
    return Status(Code::InputMismatch, compose("{} has {} bytes, expected one element", what, array->size));
  if (array->dtype == DType::I32) {
    int32_t narrow = 0;
    std::memcpy(&narrow, array->data, sizeof narrow);
    out = narrow;
  } else {
    std::memcpy(&out, array->data, sizeof out);
  }
  return ok();
}

Status read_condition(const Value& array, bool& out) {
  if (array->size != 1)
    return Status(Code::InputMismatch, compose("the condition has {}, expected one", counted(array->size, "element")));
  out = *array->data != std::byte{0};
  return ok();
}

ProgramRunner::ProgramRunner(Executor& executor, const Plan& plan, const Limits& limits, MemoryBudget& budget)
    : executor_(executor), plan_(plan), max_steps_(limits.max_steps), work_(executor.meter_), pool_(budget) {
  frames_.reserve(plan.call_depth);
  for (uint32_t depth = 0; depth < plan.call_depth; ++depth) frames_.emplace_back(pool_);
}

void ProgramRunner::Frame::clear() {
  values.clear();
  args.clear();
  results.clear();
  body_args.clear();
  body_results.clear();
  scans.clear();
}

Status ProgramRunner::tick() {
  if (executor_.meter_.why() != WorkMeter::Stop::None) return executor_.why_stopped();
  if (steps_left_ == 0) return Status(Code::Resource, 6005, "the run takes more than {} steps", max_steps_);
  --steps_left_;
  return spend(kUnitsOfStep);
}

bool ProgramRunner::copy(void* to, const void* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kMovedPiece) {
    const uint64_t piece = std::min(bytes - at, kMovedPiece);
    if (!work_.spend(units_of(piece))) return false;
    std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, piece);
  }
  return true;
}

Status ProgramRunner::run(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) {
  const Function& f = plan_.functions[function];
  main_results_.clear();
  strings_.clear();
  steps_left_ = max_steps_;
  bool succeeded = false;
  const OnExit clean([&] {
    main_args_.clear();
    if (!succeeded) {
      main_results_.clear();
      for (Frame& frame : frames_) frame.clear();
    }
    work_.close();
  });
  MLC_RETURN_IF_ERROR(main_args_.resize(inputs.size()));
  MLC_RETURN_IF_ERROR(main_results_.resize(f.outputs.size()));
  Status status = keep_fixed(function);
  for (size_t i = 0; i < inputs.size() && status.ok(); ++i)
    status = take_input(f.inputs[i], f.inputs[i].list_depth, inputs[i], main_args_[i]);
  if (status.ok()) status = call(function, main_args_, main_results_, 0);
  main_args_.clear();
  if (status.ok()) status = list_items(outputs);
  for (size_t i = 0; i < outputs.size() && status.ok(); ++i) {
    if (f.outputs[i].dtype == DType::Str) status = give_strings(main_results_[i]);
    else status = keep(main_results_[i]);
  }
  for (size_t i = 0; i < outputs.size() && status.ok(); ++i) status = give_output(f.outputs[i], main_results_[i], outputs[i]);
  succeeded = status.ok();
  return status;
}

// Adds the items of a list, and of the lists in it, to `items`; stops as soon as there are more than the limit. Recursion: the
// depth of lists.
static void count_items(const ValueNode& list, uint64_t& items) {
  items += list.size;
  for (uint64_t i = 0; list.list_depth > 1 && i < list.size && items <= kMaxListedItems; ++i)
    count_items(*list.items()[i], items);
}

// Room for what describes the items of all lists that the caller wants: all at once, because spans point into it. Lists
// share what is in them, so a few of them may have more items than any memory has room for; code that goes through the
// results item by item from here on goes no further than this count.
Status ProgramRunner::list_items(std::span<const OutputArg> outputs) {
  uint64_t items = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (main_results_[i].is_list()) count_items(*main_results_[i].node(), items);
  if (items > kMaxListedItems)
    return Status(Code::Resource, "the results are lists of more than {} items", kMaxListedItems);
  listed_.clear();
  listed_used_ = 0;
  return items > 0 ? listed_.resize(items) : ok();
}

// Recursion here and in describe: the depth of lists.
Status ProgramRunner::take_input(const Port& port, uint8_t depth, const InputArg& in, Value& out) {
  if (depth == 0 && port.dtype == DType::Str) return take_strings(in, out);
  if (depth == 0) {
    uint64_t bytes = bytes_of(port.dtype);
    for (int64_t extent : in.shape) bytes *= static_cast<uint64_t>(extent);  // Executor::check_arguments did it checked
    if (executor_.may_lend(in.data, bytes)) return make_borrowed(pool_, port.dtype, in.shape, in.data, bytes, out);
    MLC_RETURN_IF_ERROR(make_array(pool_, port.dtype, in.shape, bytes, out));
    return copy(out->data, in.data, bytes) ? ok() : executor_.why_stopped();
  }
  MLC_RETURN_IF_ERROR(make_list(pool_, port.dtype, depth, in.items.size(), out));
  for (const InputArg& item : in.items) {
    Value v;
    MLC_RETURN_IF_ERROR(take_input(port, depth - 1, item, v));
    MLC_RETURN_IF_ERROR(append(out, v));
  }
  return ok();
}

Status ProgramRunner::give_output(const Port& port, const Value& value, OutputArg& out) {
  if (value.is_list() || !out.data) {
    out.data = nullptr;
    describe(value, out);
    return ok();
  }
  if (out.capacity < value->size)
    return Status(Code::InputMismatch, 4004,
                  compose("output '{}' takes {} bytes, {} are given", port.name, value->size, out.capacity));
  if (value->size > 0) std::memcpy(out.data, value->data, value->size);
  out.dtype = value->dtype;
  out.shape = value.shape();
  out.bytes = value->size;
  return ok();
}

void ProgramRunner::describe(const Value& value, OutputArg& out) {
  out.dtype = value->dtype;
  out.list_depth = value->list_depth;
  if (!value.is_list()) {
    out.data = value->data;
    out.capacity = out.bytes = value->size;
    out.shape = value.shape();
    return;
  }
  const std::span<OutputArg> items(listed_.data() + listed_used_, value->size);
  listed_used_ += value->size;
  for (uint64_t i = 0; i < value->size; ++i) describe(value.item(i), items[i]);
  out.items = items;
}

Status ProgramRunner::call(uint32_t function, std::span<Value> args, std::span<Value> results, uint32_t depth) {
  const Function& f = plan_.functions[function];
  MLC_RETURN_IF_ERROR(spend(1 + f.num_values / 8 + f.shape.size()));
  if (!f.is_program()) return call_segment(function, args, results);
  if (!f.shape.empty() || depth > 0) {  // the caller's arguments have been checked, but for what `shape` says
    view(args);
    MLC_RETURN_IF_ERROR(executor_.check_arguments(f, inputs_));
    if (auto bound = executor_.bind(function, inputs_); !bound) return std::move(bound).status();
  }
  Frame& frame = frames_[depth];
  MLC_RETURN_IF_ERROR(frame.values.resize(f.num_values));
  std::move(args.begin(), args.end(), frame.values.begin());
  Status status;
  const bool are_kept = depth == 0 && kept_of_ == function;
  for (size_t k = 0; are_kept && k < kept_.size() && status.ok(); ++k) {
    const Value& v = kept_[k];  // lent: what the caller is given is a copy
    status = make_borrowed(pool_, v->dtype, v.shape(), v->data, v->size, frame.values[f.kept[k]]);
  }
  for (size_t i = 0; i < f.steps.size() && status.ok(); ++i)
    if (!are_kept || !f.steps[i].fixed) status = make(f, i, frame, depth);
  for (size_t i = 0; i < f.outputs.size() && status.ok(); ++i) {
    results[i] = frame.values[f.outputs[i].value];
    if (f.outputs[i].list_depth == 0 && results[i]->rank != f.outputs[i].rank)
      status = Status(Code::InputMismatch, compose("output '{}' of '{}' has {}, expected {}", f.outputs[i].name,
                                                   f.name, counted(results[i]->rank, "axis", "axes"), f.outputs[i].rank));
  }
  frame.clear();
  return status;
}

Status ProgramRunner::make(const Function& program, size_t i, Frame& frame, uint32_t depth) {
  const Step& s = program.steps[i];
  Status status = prepare(s, frame);
  if (status.ok()) status = tick();
  if (status.ok()) status = step(s, frame, depth);
  if (!status.ok()) {
    if (executor_.meter_.why() != WorkMeter::Stop::None) status = executor_.why_stopped();
    if (status.code != Code::Cancelled)
      (void)std::move(status).note(compose("'{}', step {}{}", program.name, i, s.name.empty() ? "" : " (" + s.name + ")"));
    return status;
  }
  for (size_t k = 0; k < s.outputs.size(); ++k)
    if (s.wanted[k]) frame.values[s.outputs[k]] = std::move(frame.results[k]);
  frame.args.clear();
  frame.results.clear();
  return ok();
}

Status ProgramRunner::keep_fixed(uint32_t function) {
  const Function& f = plan_.functions[function];
  if (kept_of_ == function || f.kept.empty()) return ok();
  kept_.clear();
  kept_of_ = kNoFunction;
  strings_.clear_kept();
  Frame& frame = frames_[0];
  const OnExit clean([&] { frame.clear(); });
  MLC_RETURN_IF_ERROR(frame.values.resize(f.num_values));
  for (size_t i = 0; i < f.steps.size(); ++i)
    if (f.steps[i].fixed) MLC_RETURN_IF_ERROR(make(f, i, frame, 0));
  MLC_RETURN_IF_ERROR(kept_.resize(f.kept.size()));
  for (size_t k = 0; k < f.kept.size(); ++k) kept_[k] = std::move(frame.values[f.kept[k]]);
  strings_.keep();
  kept_of_ = function;
  return ok();
}

void ProgramRunner::view(std::span<const Value> values) {
  inputs_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& v = values[i];
    // Strings are half as long inside as the Texts that they were; they are not read here.
    const uint64_t bytes = v->dtype == DType::Str ? v->size / 8 * sizeof(Text) : v->size;
    inputs_[i] = {v->dtype, v.shape(), v->data, bytes, {}, v->list_depth};
  }
}

Status ProgramRunner::call_segment(uint32_t function, std::span<Value> args, std::span<Value> results) {
  const Function& f = plan_.functions[function];
  view(args);
  MLC_RETURN_IF_ERROR(executor_.check_arguments(f, inputs_));
  MLC_ASSIGN(Executor::Binding * binding, executor_.bind(function, inputs_));
  outputs_.assign(f.outputs.size(), {});
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    const uint64_t bytes = binding->output_bytes[i];
    MLC_RETURN_IF_ERROR(make_array(pool_, f.outputs[i].dtype, binding->output_shapes[i], bytes, results[i]));
    outputs_[i].data = results[i]->data;
    outputs_[i].capacity = bytes;
  }
  work_.close();  // the segment's workers draw on their own
  return executor_.run_segment(function, *binding, inputs_, outputs_, /*values=*/true);
}

// The operands of a step, moved where nothing reads them any more, and room for its results.
Status ProgramRunner::prepare(const Step& s, Frame& frame) {
  MLC_RETURN_IF_ERROR(frame.args.resize(s.inputs.size()));
  MLC_RETURN_IF_ERROR(frame.results.resize(s.outputs.size()));
  for (size_t k = 0; k < s.inputs.size(); ++k) {
    if (s.inputs[k] == kNoValue) continue;
    Value& from = frame.values[s.inputs[k]];
    if (s.last[k]) frame.args[k] = std::move(from);
    else frame.args[k] = from;
  }
  return ok();
}

Status ProgramRunner::step(const Step& s, Frame& frame, uint32_t depth) {
  switch (s.op) {
    case StepOp::Call: return call(s.functions[0], frame.args, frame.results, depth + 1);
    case StepOp::Branch: {
      bool condition = false;
      MLC_RETURN_IF_ERROR(read_condition(frame.args[0], condition));
      return call(s.functions[condition ? 0 : 1], std::span(frame.args).subspan(1), frame.results, depth + 1);
    }
    case StepOp::Loop: return loop(s, frame, depth);
    case StepOp::Host: return host_step(s, frame.args, frame.results);
    default:
      return s.op >= StepOp::StringsIn ? string_step(s, frame.args, frame.results) : list_step(s, frame.args, frame.results);
  }
}

Status ProgramRunner::loop(const Step& s, Frame& frame, uint32_t depth) {
  PoolArray<Value>& args = frame.args;  // trip count, condition, carried values, arguments
  const Function& body = plan_.functions[s.functions[0]];
  const size_t carried = s.carried, scanned = body.outputs.size() - 1 - carried;
  int64_t trips = INT64_MAX;
  bool condition = true;
  if (args[0]) MLC_RETURN_IF_ERROR(read_number(args[0], "the trip count", trips));
  if (args[1]) MLC_RETURN_IF_ERROR(read_condition(args[1], condition));
  MLC_RETURN_IF_ERROR(frame.scans.resize(scanned));
  int64_t iteration = 0;
  const auto make_arguments = [&](bool last) -> Status {
    MLC_RETURN_IF_ERROR(frame.body_args.resize(args.size()));
    Value& number = frame.body_args[0];
    Value& truth = frame.body_args[1];
    MLC_RETURN_IF_ERROR(make_array(pool_, DType::I64, {}, sizeof iteration, number));
    MLC_RETURN_IF_ERROR(make_array(pool_, DType::Bool, {}, 1, truth));
    std::memcpy(number->data, &iteration, sizeof iteration);
    *truth->data = std::byte{condition};
    for (size_t i = 2; i < args.size(); ++i) {
      if (!last && i < 2 + carried) frame.body_args[i] = std::move(args[i]);
      else frame.body_args[i] = args[i];
    }
    return ok();
  };
  for (; condition && iteration < trips; ++iteration) {
    MLC_RETURN_IF_ERROR(tick());
    MLC_RETURN_IF_ERROR(make_arguments(false));
    MLC_RETURN_IF_ERROR(frame.body_results.resize(body.outputs.size()));
    MLC_RETURN_IF_ERROR(call(s.functions[0], frame.body_args, frame.body_results, depth + 1));
    MLC_RETURN_IF_ERROR(read_condition(frame.body_results[0], condition));
    for (size_t i = 0; i < carried; ++i) args[2 + i] = std::move(frame.body_results[1 + i]);
    for (size_t i = 0; i < scanned; ++i)
      if (s.wanted[carried + i])
        MLC_RETURN_IF_ERROR(collect(frame.scans[i], frame.body_results[1 + carried + i], iteration, trips));
    frame.body_args.clear();
    frame.body_results.clear();
  }
  for (size_t i = 0; i < scanned; ++i) {
    if (!s.wanted[carried + i]) continue;
    if (iteration == 0) {
      MLC_RETURN_IF_ERROR(make_arguments(true));
      MLC_RETURN_IF_ERROR(no_iterations(s, frame, i, frame.results[carried + i]));
      continue;
    }
    Scan& scan = frame.scans[i];
    scan.buffer->shape[0] = iteration;
    set_size(*scan.buffer.node(), scan.slice_bytes * static_cast<uint64_t>(iteration));
    frame.results[carried + i] = std::move(scan.buffer);
  }
  for (size_t i = 0; i < carried; ++i) frame.results[i] = std::move(args[2 + i]);
  frame.body_args.clear();
  frame.scans.clear();
  return ok();
}

Status ProgramRunner::collect(Scan& scan, const Value& slice, int64_t iteration, int64_t trips) {
  const size_t rank = slice->rank;
  if (iteration == 0) {
    if (rank + 1 > format::kMaxRank) return Status(Code::InputMismatch, compose("scanned values of {} axes", rank));
    int64_t shape[format::kMaxRank] = {0};
    std::copy_n(slice->shape, rank, shape + 1);
    scan.slice_bytes = slice->size;
    // A trip count may be anything, so it is trusted for the first few only.
    const auto room = checked_mul(slice->size, static_cast<uint64_t>(std::min<int64_t>(trips, 8)));
    MLC_RETURN_IF_ERROR(make_array(pool_, slice->dtype, std::span(shape, rank + 1), room.value_or(UINT64_MAX), scan.buffer));
  }
  if (scan.buffer->rank != rank + 1 || !std::equal(slice->shape, slice->shape + rank, scan.buffer->shape + 1))
    return Status(Code::InputMismatch, compose("scanned values change their shape in iteration {}", iteration));
  const uint64_t used = scan.slice_bytes * static_cast<uint64_t>(iteration);  // no more than what is held
  if (used + scan.slice_bytes > BlockPool::capacity(scan.buffer->block)) MLC_RETURN_IF_ERROR(spend(units_of(used)));
  MLC_RETURN_IF_ERROR(make_room(*scan.buffer.node(), used, used + scan.slice_bytes));
  return copy(scan.buffer->data + used, slice->data, scan.slice_bytes) ? ok() : executor_.why_stopped();
}

// The extents of a result of a segment for what `inputs_` views, if these fit it.
void ProgramRunner::shape_of_result(uint32_t function, size_t output, std::span<int64_t> shape) {
  if (!executor_.check_arguments(plan_.functions[function], inputs_).ok()) return;
  auto bound = executor_.bind(function, inputs_);
  if (bound && (*bound)->output_shapes[output].size() == shape.size()) std::ranges::copy((*bound)->output_shapes[output], shape.begin());
}

// The extents of a value of a program for what `inputs_` views: of one of its inputs, or of what a segment makes of these.
void ProgramRunner::shape_of_value(const Function& program, uint32_t value, std::span<int64_t> shape) {
  if (value < program.inputs.size()) {
    if (inputs_[value].shape.size() == shape.size()) std::ranges::copy(inputs_[value].shape, shape.begin());
    return;
  }
  for (const Step& step : program.steps) {
    const auto made = std::find(step.outputs.begin(), step.outputs.end(), value);
    if (made == step.outputs.end()) continue;
    if (step.op != StepOp::Call || plan_.functions[step.functions[0]].is_program()) return;
    const size_t given = inputs_.size();
    if (std::any_of(step.inputs.begin(), step.inputs.end(), [&](uint32_t v) { return v >= program.inputs.size(); })) return;
    for (const uint32_t v : step.inputs) inputs_.push_back(InputArg(inputs_[v]));
    inputs_.erase(inputs_.begin(), inputs_.begin() + static_cast<ptrdiff_t>(given));
    return shape_of_result(step.functions[0], static_cast<size_t>(made - step.outputs.begin()), shape);
  }
}

// A scanned value of a loop that did not run: no elements, and the other extents as they would have been, where the
// shapes of the first iteration tell them.
Status ProgramRunner::no_iterations(const Step& s, Frame& frame, size_t scanned, Value& out) {
  const Function& body = plan_.functions[s.functions[0]];
  const size_t output = 1 + s.carried + scanned;
  const Port& port = body.outputs[output];
  int64_t shape[format::kMaxRank] = {0};
  const size_t rank = port.axes();
  if (rank + 1 > format::kMaxRank) return Status(Code::InputMismatch, compose("scanned values of {} axes", rank));
  view(frame.body_args);
  if (body.is_program()) shape_of_value(body, port.value, std::span(shape + 1, rank));
  else shape_of_result(s.functions[0], output, std::span(shape + 1, rank));
  return make_array(pool_, port.dtype, std::span(shape, rank + 1), 0, out);
}

}  // namespace mlc::exec
