#include "runtime/api/devices/together_mapping.h"

#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "base/system/clock.h"
#include "runtime/ensemble/placement.h"
#include "runtime/probe/probe.h"
#include "signing/hash_tree.h"

namespace mlc::api {
namespace {

using ensemble::Choice;
using ensemble::Mode;
using ensemble::Part;
using ensemble::Place;

// As many rows as a request is taken to have at least where rows are independent of each other: single rows are not divided.
constexpr uint64_t kUsualRows = 16;

// A program that does nothing but call a segment.
exec::Function calling(const exec::Plan& plan, uint32_t function) {
  const exec::Function& f = plan.functions[function];
  exec::Function out;
  out.name = f.name;
  out.inputs = f.inputs;
  out.outputs = f.outputs;
  exec::Step step;
  step.op = StepOp::Call;
  step.functions = {function};
  for (exec::Port& p : out.inputs) step.inputs.push_back(p.value = out.num_values++);
  for (exec::Port& p : out.outputs) {
    p.rank = static_cast<uint32_t>(p.axes());
    p.shape.clear();
    step.outputs.push_back(p.value = out.num_values++);
  }
  out.steps.push_back(std::move(step));
  return out;
}

// Of zeros: the time of kernels does not depend on values.
Result<double> time_segment(const Part& part, uint32_t function, const ensemble::SegmentWork& work) {
  const exec::Function& f = part.plan->functions[function];
  std::vector<AlignedBlock> blocks;
  std::vector<exec::InputArg> inputs;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    uint64_t bytes = bytes_of(f.inputs[i].dtype);
    for (int64_t extent : work.input_shapes[i]) bytes *= static_cast<uint64_t>(extent);  // work_of has looked at them
    MLC_ASSIGN(AlignedBlock block, AlignedBlock::allocate(bytes));
    inputs.push_back({f.inputs[i].dtype, work.input_shapes[i], block.data(), bytes});
    blocks.push_back(std::move(block));
  }
  std::vector<exec::OutputArg> outputs(f.outputs.size());
  const uint64_t begin = now_ns();
  MLC_RETURN_IF_ERROR(part.executor->run(function, inputs, outputs));
  return static_cast<double>(now_ns() - begin);
}

// The same for so many times the rows.
void scale(ensemble::Problem& problem, double times) {
  const auto more = [&](uint64_t n) { return static_cast<uint64_t>(std::min(static_cast<double>(n) * times, 1e18)); };
  for (ensemble::SegmentCost& segment : problem.segments) {
    for (double& ns : segment.ns) ns *= times;
    segment.arena = more(segment.arena);
  }
  for (ensemble::PassedValue& v : problem.values) v.bytes = more(v.bytes);
}

std::string tenths_of_ms(double ns) { return compose("{}.{} ms", static_cast<uint64_t>(ns / 1e6), static_cast<uint64_t>(ns / 1e5) % 10); }

}  // namespace

Status Mapping::run() {
  const exec::Plan& plan = *parts_[0].plan;
  place.assign(plan.functions.size(), 0);
  MLC_ASSIGN(fixed_, ensemble::read_placement(options_.placement ? options_.placement : "", plan, parts_));
  for (uint32_t f = 0; f < place.size(); ++f) {
    if (fixed_[f] != ensemble::kAnyPart) place[f] = fixed_[f];
    else if (objective_ == ensemble::Objective::Throughput) wide[f] = Place{.how = Place::How::First, .may = std::vector<uint8_t>(parts_.size(), 1)};
  }
  if (objective_) MLC_RETURN_IF_ERROR(measure_links());
  for (uint32_t method = 0; method < model_.manifest().methods.size(); ++method) {
    const auto function = plan.find(model_.manifest().methods[method].name);
    if (!function) continue;
    if (!is_free(*function)) {
      tell_whole(*function);
      continue;
    }
    const auto cut = ensemble::cut_of(plan, *function);
    if (cut) MLC_RETURN_IF_ERROR(decide(method, *function, plan.functions[*cut]));
    else if (objective_ && !plan.functions[*function].is_program()) MLC_RETURN_IF_ERROR(decide(method, *function, calling(plan, *function)));
    else tell_whole(*function);
  }
  return ok();
}

std::string Mapping::fingerprint(const Part& part) const {
  const probe::Record& host = probe::host();
  std::string out = compose("{}\n{}\n{} workers\n", host.cpu_model, host.os_release, parts_[0].executor->workers());
  if (!part.device) return out;
  const device::Info& info = part.device->info();
  return out + compose("{} {}\n{}\n{}\n{}\n", info.api, info.identity, info.title, info.driver, info.memory_bytes);
}

Status Mapping::measure_links() {
  for (const Part& part : parts_) {
    ensemble::PartCost cost;
    cost.is_processor = part.device == nullptr;
    cost.capacity = part.device ? ensemble::capacity_of(*part.device) : probe::host().memory.effective_free_bytes / 10 * 9;
    const std::string what = "link\n" + fingerprint(part);
    const auto* known = part.device ? remembered_.find(what) : nullptr;
    if (part.device && !(known && ensemble::set_link(*known, cost))) {
      MLC_RETURN_IF_ERROR(ensemble::measure_link(*part.device, cost));
      const auto numbers = ensemble::link_numbers(cost);
      ensemble::set_link(numbers, cost);
      remembered_.put(what, numbers);
    }
    links_.push_back(cost);
  }
  return ok();
}

// Those of its first golden vector: inputs of a run as there are some.
Mapping::Shapes Mapping::shapes_of(uint32_t method) const {
  const format::Manifest& m = model_.manifest();
  const auto golden = std::find_if(m.golden.begin(), m.golden.end(), [&](const format::Golden& g) { return g.method == method; });
  Shapes shapes(m.methods[method].inputs.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    for (const format::DimRef& dim : m.methods[method].inputs[i].dims)
      shapes[i].push_back(dim.extent ? *dim.extent : dim.dim ? m.methods[method].dims[*dim.dim].min : 1);
  if (golden == m.golden.end()) return shapes;
  for (const format::GoldenArray& a : golden->inputs)
    if (a.port < shapes.size()) shapes[a.port].assign(a.shape.begin(), a.shape.end());
  return shapes;
}

// The rows of a method whose first axes are what the file says that they are: then they are cut, and nothing else is.
void Mapping::find_rows(uint32_t method, const exec::Function& program, const Shapes& shapes, ensemble::Rows& rows, std::vector<uint8_t>& has_rows) const {
  const format::Method& m = model_.manifest().methods[method];
  if (!m.batch) return;
  // A plan has the ports that the manifest says, but for the methods with a pipeline the core ones.
  if (program.inputs.size() != m.inputs.size() || program.outputs.size() != m.outputs.size()) return;
  for (size_t i = 0; i < m.inputs.size(); ++i)
    if (program.inputs[i].axes() != m.inputs[i].dims.size()) return;
  const auto is_rows = [&](const format::Port& p) { return p.list_depth == 0 && !p.dims.empty() && p.dims[0].dim == m.batch; };
  if (!std::all_of(m.outputs.begin(), m.outputs.end(), is_rows)) return;
  uint64_t count = 0;
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    has_rows.push_back(is_rows(m.inputs[i]) && !shapes[i].empty());
    if (has_rows.back()) count = static_cast<uint64_t>(std::max<int64_t>(0, shapes[i][0]));
  }
  const format::Dim& dim = m.dims[*m.batch];
  rows = {count, static_cast<uint64_t>(std::max<int64_t>(dim.multiple, 1)), static_cast<uint64_t>(std::max<int64_t>(dim.min, 1))};
}

bool Mapping::is_free(uint32_t function) const { return fixed_[function] == ensemble::kAnyPart; }

// As a process with the same file, devices and shapes measured it before.
Result<ensemble::Problem> Mapping::measured(const exec::Function& program, const Shapes& shapes) {
  ensemble::Problem problem;
  problem.parts = links_;
  MLC_ASSIGN(const ensemble::ProgramWork work, ensemble::work_of(*parts_[0].plan, program, shapes));
  problem.values = work.values;
  for (const ensemble::SegmentWork& segment : work.segments)
    problem.segments.push_back({std::vector<double>(parts_.size(), 0), segment.weights, segment.arena});
  std::string what = compose("segments\n{}\n{}\n", to_hex(model_.container().root()), program.name);
  for (const auto& shape : shapes)
    for (const int64_t extent : shape) what += compose("{} ", extent);
  for (const Part& part : parts_) what += compose("\n{} {}\n", part.name, part.variant) + fingerprint(part);
  if (const auto* known = remembered_.find(what); known && ensemble::set_segments(*known, problem)) return problem;
  bool is_lasting = true;  // not where memory was short, or a device was lost
  const auto time = [&](uint32_t part, uint32_t segment) {
    auto ns = time_segment(parts_[part], program.steps[segment].functions[0], work.segments[segment]);
    is_lasting = is_lasting && (ns.ok() || ns.status().code != Code::Resource);
    return ns;
  };
  ensemble::measure(work, time, ensemble::kMeasureNs, problem);
  const auto numbers = ensemble::segment_numbers(problem);
  ensemble::set_segments(numbers, problem);
  if (is_lasting) remembered_.put(what, numbers);
  return problem;
}

Status Mapping::decide(uint32_t method, uint32_t function, const exec::Function& program) {
  ensemble::Problem problem;
  Place by_rows{.how = Place::How::Rows};
  if (objective_) {
    const Shapes shapes = shapes_of(method);
    MLC_ASSIGN(problem, measured(program, shapes));
    const bool all_free = std::all_of(program.steps.begin(), program.steps.end(), [&](const exec::Step& s) { return is_free(s.functions[0]); });
    if (objective_ == ensemble::Objective::Latency && all_free) find_rows(method, program, shapes, problem.rows, by_rows.has_rows);
    if (ensemble::Rows& rows = problem.rows; rows.count > 0) {
      const uint64_t most = std::clamp<uint64_t>(static_cast<uint64_t>(model_.manifest().methods[method].dims[*model_.manifest().methods[method].batch].max), 1, kUsualRows);
      const uint64_t usual = std::max(rows.count, most / rows.multiple * rows.multiple);
      scale(problem, static_cast<double>(usual) / static_cast<double>(rows.count));
      rows.count = usual;
    }
  } else {
    problem.parts.resize(parts_.size());
    problem.segments.resize(program.steps.size(), {std::vector<double>(parts_.size(), 0)});
  }
  for (size_t s = 0; s < problem.segments.size(); ++s) {
    const uint32_t segment = program.steps[s].functions[0];
    const uint32_t where = !is_free(segment) || objective_ ? fixed_[segment] : 0;
    for (uint32_t p = 0; p < parts_.size(); ++p)
      if (where != ensemble::kAnyPart && where != p) problem.segments[s].ns[p] = ensemble::kImpossible;
  }
  const auto choice = ensemble::choose(problem, objective_.value_or(ensemble::Objective::Latency));
  if (!choice) return Status(Code::Resource, "'{}' fits on no devices that are there", program.name);
  apply(*choice, function, program, problem, by_rows);
  return ok();
}

void Mapping::apply(const Choice& choice, uint32_t function, const exec::Function& program, const ensemble::Problem& problem, const Place& by_rows) {
  const std::vector<ensemble::Stage>& chosen = choice.assignment.stages;
  switch (choice.mode) {
    case Mode::OneDevice:
      place[function] = chosen[0].part;
      wide.erase(function);
      break;
    case Mode::Path:
    case Mode::Pipeline:
      staged.push_back({function, chosen});
      for (const exec::Step& step : program.steps) wide.erase(step.functions[0]);
      break;
    case Mode::Replicate:
    case Mode::Rows: {
      Place& out = wide[function] = choice.mode == Mode::Rows ? by_rows : Place{.how = Place::How::First};
      out.may.clear();
      for (uint32_t p = 0; p < parts_.size(); ++p) {
        out.may.push_back(choice.alone[p] < ensemble::kImpossible);
        if (out.may[p]) expected.push_back({function, p, choice.alone[p]});
        if (choice.alone[p] < choice.alone[out.part]) out.part = p;
      }
      out.costs = choice.rows;
      out.rules = problem.rows;
      tell_wide(choice, function, problem);
      return;
    }
  }
  tell_stages(choice, program, problem);
}

// One that was not decided: the caller places it, or it was not cut.
void Mapping::tell_whole(uint32_t function) {
  const bool is_placed = !is_free(function) || !objective_;
  for (uint32_t p = 0; p < parts_.size(); ++p) {
    PlacedStage out{parts_[0].plan->functions[function].name, parts_[p].name, parts_[p].variant, 0, 0, "", ""};
    if (const auto found = wide.find(function); found != wide.end()) {
      out.mode = ensemble::name_of(Mode::Replicate);
      out.why = "a program with steps of its own: each of its segments where it is expected to be done first";
    } else if (place[function] == p) {
      out.mode = is_placed ? "placed" : ensemble::name_of(Mode::OneDevice);
      out.why = is_placed ? "placed by the caller" : "a program with steps of its own, which is not cut";
    } else {
      continue;
    }
    stages.push_back(std::move(out));
  }
}

void Mapping::tell_wide(const Choice& choice, uint32_t function, const ensemble::Problem& problem) {
  const std::vector<uint64_t> shares = choice.mode == Mode::Rows ? ensemble::divide_rows(choice.rows, problem.rows) : std::vector<uint64_t>();
  for (uint32_t p = 0; p < parts_.size(); ++p) {
    PlacedStage out{parts_[0].plan->functions[function].name, parts_[p].name, parts_[p].variant, 0, 0, std::string(ensemble::name_of(choice.mode)), choice.why};
    if (choice.mode == Mode::Rows) {
      if (shares[p] == 0) continue;
      out.ns = static_cast<uint64_t>(ensemble::divided_ns({choice.rows[p]}, {shares[p]}));
      out.why = compose("{} of {} rows; {}", shares[p], problem.rows.count, choice.why);
    } else {
      if (!(choice.alone[p] < ensemble::kImpossible)) continue;
      out.ns = static_cast<uint64_t>(choice.alone[p]);
    }
    stages.push_back(std::move(out));
  }
}

void Mapping::tell_stages(const Choice& choice, const exec::Function& program, const ensemble::Problem& problem) {
  const auto name = [&](uint32_t s) { return parts_[0].plan->functions[program.steps[s].functions[0]].name; };
  for (const ensemble::Stage& stage : choice.assignment.stages) {
    PlacedStage out;
    out.segments = stage.end == stage.first + 1 ? name(stage.first) : compose("{} to {}", name(stage.first), name(stage.end - 1));
    out.device = parts_[stage.part].name;
    out.variant = parts_[stage.part].variant;
    out.ns = static_cast<uint64_t>(stage.ns);
    out.copies_ns = static_cast<uint64_t>(stage.copies_ns);
    out.mode = objective_ ? ensemble::name_of(choice.mode) : "placed";
    out.why = objective_ ? choice.why : "placed by the caller";
    for (uint32_t p = 0; objective_ && p < parts_.size(); ++p) {
      if (p == stage.part) continue;
      double ns = 0;
      for (uint32_t s = stage.first; s < stage.end; ++s) ns += problem.segments[s].ns[p];
      out.why += ns < ensemble::kImpossible ? compose("; {} on {}", tenths_of_ms(ns), parts_[p].name) : compose("; not possible on {}", parts_[p].name);
    }
    stages.push_back(std::move(out));
  }
}

}  // namespace mlc::api
