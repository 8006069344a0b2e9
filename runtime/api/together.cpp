// Sessions on several devices together. Of libmlrt-gpu.
#include "runtime/api/together.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/compose.h"
#include "loaders/cuda/cuda_devices.h"
#include "loaders/vulkan/vulkan_devices.h"
#include "runtime/api/devices.h"
#include "runtime/ensemble/composed_plan.h"
#include "runtime/ensemble/measure.h"
#include "runtime/ensemble/parts_runner.h"
#include "runtime/ensemble/placement.h"
#include "runtime/probe/probe.h"

namespace mlc::api {
namespace {

using ensemble::Part;

constexpr const char* kProcessor = "cpu";

// Which variants suit one device alone: a matcher gives each variant to the first one that it fits.
Matcher matcher_for(const Model& model, const NamedDevice& device) {
  MatchPolicy policy;  // code of devices runs only where trust is settled
  for (const exec::Service& service : model.services()) policy.services.push_back(service.name);
  policy.devices = {&device, 1};
  return Matcher(probe::host(), model.manifest().variants, std::move(policy));
}

// Decides what runs where.
class Mapping {
 public:
  Mapping(const Model& model, const std::vector<Part>& parts, const SessionOptions& options) : model_(model), parts_(parts), options_(options) {}

  Status run() {
    const exec::Plan& plan = *parts_[0].plan;
    place.assign(plan.functions.size(), 0);
    MLC_ASSIGN(fixed_, ensemble::read_placement(options_.placement ? options_.placement : "", plan, parts_));
    for (uint32_t f = 0; f < place.size(); ++f)
      if (fixed_[f] != ensemble::kAnyPart) place[f] = fixed_[f];
    if (options_.objective) MLC_RETURN_IF_ERROR(measure_links());
    for (uint32_t method = 0; method < model_.manifest().methods.size(); ++method) {
      const auto function = plan.find(model_.manifest().methods[method].name);
      const auto cut = function ? ensemble::cut_of(plan, *function) : std::nullopt;
      if (cut && fixed_[*function] == ensemble::kAnyPart) MLC_RETURN_IF_ERROR(decide(method, *function, *cut));
    }
    return ok();
  }

  std::vector<ensemble::Staged> staged;
  std::vector<uint32_t> place;  // of each function that is not staged
  std::vector<PlacedStage> stages;

 private:
  Status measure_links() {
    for (const Part& part : parts_) {
      ensemble::PartCost cost;
      cost.is_processor = part.device == nullptr;
      cost.capacity = probe::host().memory.effective_free_bytes / 10 * 9;
      if (part.device) {
        MLC_ASSIGN(cost, ensemble::measure_link(*part.device));
      }
      links_.push_back(cost);
    }
    return ok();
  }

  // Those of its first golden vector: inputs of a run as there are some.
  std::vector<std::vector<int64_t>> shapes_of(uint32_t method) const {
    const format::Manifest& m = model_.manifest();
    const auto golden = std::find_if(m.golden.begin(), m.golden.end(), [&](const format::Golden& g) { return g.method == method; });
    std::vector<std::vector<int64_t>> shapes(m.methods[method].inputs.size());
    for (size_t i = 0; i < shapes.size(); ++i)
      for (const format::DimRef& dim : m.methods[method].inputs[i].dims)
        shapes[i].push_back(dim.extent ? *dim.extent : dim.dim ? m.methods[method].dims[*dim.dim].min : 1);
    if (golden == m.golden.end()) return shapes;
    for (const format::GoldenArray& a : golden->inputs)
      if (a.port < shapes.size()) shapes[a.port].assign(a.shape.begin(), a.shape.end());
    return shapes;
  }

  Status decide(uint32_t method, uint32_t function, uint32_t cut) {
    const exec::Function& program = parts_[0].plan->functions[cut];
    ensemble::Problem problem;
    problem.parts = links_;
    problem.parts.resize(parts_.size());
    problem.segments.resize(program.steps.size());
    if (options_.objective) MLC_RETURN_IF_ERROR(measure(method, program, problem));
    for (size_t s = 0; s < problem.segments.size(); ++s) {
      const uint32_t segment = program.steps[s].functions[0];
      const uint32_t where = fixed_[segment] != ensemble::kAnyPart || options_.objective ? fixed_[segment] : 0;
      problem.segments[s].ns.resize(parts_.size());
      for (uint32_t p = 0; p < parts_.size(); ++p)
        if (where != ensemble::kAnyPart && where != p) problem.segments[s].ns[p] = ensemble::kImpossible;
    }
    const bool for_memory = options_.objective && std::string_view(options_.objective) == "memory";
    auto choice = ensemble::choose(problem, for_memory ? ensemble::Objective::Memory : ensemble::Objective::Latency);
    if (!choice) return Status(Code::Resource, "'{}' fits on no devices that are there", parts_[0].plan->functions[function].name);
    for (const ensemble::Stage& stage : choice->assignment.stages) stages.push_back(told(program, problem, stage, options_.objective ? choice->why : "placed by the caller"));
    if (choice->assignment.stages.size() == 1) place[function] = choice->assignment.stages[0].part;
    else staged.push_back({function, choice->assignment.stages});
    return ok();
  }

  Status measure(uint32_t method, const exec::Function& program, ensemble::Problem& problem) {
    MLC_ASSIGN(const ensemble::ProgramWork work, ensemble::work_of(*parts_[0].plan, program, shapes_of(method)));
    problem.values = work.values;
    for (size_t s = 0; s < work.segments.size(); ++s)
      problem.segments[s] = {std::vector<double>(parts_.size(), 0), work.segments[s].weights, work.segments[s].arena};
    const auto time = [&](uint32_t part, uint32_t segment) { return time_segment(parts_[part], program.steps[segment].functions[0], work.segments[segment]); };
    ensemble::measure(work, time, ensemble::kMeasureNs, problem);
    return ok();
  }

  // Of zeros: the time of kernels does not depend on values.
  static Result<double> time_segment(const Part& part, uint32_t function, const ensemble::SegmentWork& work) {
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

  PlacedStage told(const exec::Function& program, const ensemble::Problem& problem, const ensemble::Stage& stage, const std::string& why) const {
    const auto name = [&](uint32_t s) { return parts_[0].plan->functions[program.steps[s].functions[0]].name; };
    PlacedStage out;
    out.segments = stage.end == stage.first + 1 ? name(stage.first) : compose("{} to {}", name(stage.first), name(stage.end - 1));
    out.device = parts_[stage.part].name;
    out.variant = parts_[stage.part].variant;
    out.ns = static_cast<uint64_t>(stage.ns);
    out.copies_ns = static_cast<uint64_t>(stage.copies_ns);
    out.why = why;
    if (!options_.objective) return out;
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      if (p == stage.part) continue;
      double ns = 0;
      for (uint32_t s = stage.first; s < stage.end; ++s) ns += problem.segments[s].ns[p];
      if (ns < ensemble::kImpossible) out.why += compose("; {}.{} ms on {}", static_cast<uint64_t>(ns / 1e6), static_cast<uint64_t>(ns / 1e5) % 10, parts_[p].name);
      else out.why += compose("; not possible on {}", parts_[p].name);
    }
    return out;
  }

  const Model& model_;
  const std::vector<Part>& parts_;
  const SessionOptions& options_;
  std::vector<uint32_t> fixed_;  // part of each function; kAnyPart: nobody says
  std::vector<ensemble::PartCost> links_;
};

}  // namespace

const PlacedStage* Session::stage(uint32_t index) const {
  if (!module_ && is_together_) {
    const auto& stages = static_cast<const Together*>(on_devices_.get())->stages;
    if (index < stages.size()) return &stages[index];
  }
  return nullptr;
}

// The best variant that loads.
Result<std::shared_ptr<Session>> Session::load_part(Matcher matcher, const NamedDevice* device, const SessionOptions& options) {
  for (;;) {
    MLC_ASSIGN(std::vector<uint32_t> candidates, matcher.candidates({}, {}));
    std::erase_if(candidates, [&](uint32_t v) { return is_for_device(model_.manifest().variants[v]) != (device != nullptr); });
    if (candidates.empty()) return Status(Code::NoVariant, "no variant runs on {}", device ? device->name : kProcessor);
    std::shared_ptr<Session> part(new Session(model_));
    part->allocator_ = allocator_;
    part->pool_ = pool_;
    part->variant_ = candidates.front();
    if (device) part->device_ = device->name;
    auto token = matcher.admit(part->variant_);
    Status failure = token ? part->load(std::move(*token), options) : std::move(token).status();
    if (failure.ok()) return part;
    if (failure.code != Code::Resource && failure.code != Code::NoVariant && failure.code != Code::Unsupported) return failure;
    if (!note_.empty()) note_ += "; ";
    note_ += compose("{} left out: {}", part->variant().name, failure.message);
    matcher.reject(part->variant_, failure.message);
  }
}

Status Session::start_part(exec::Plan plan, const SessionOptions& options) {
  executor_.reset();
  plan_ = std::move(plan);
  if (!module_) return start_on_device(options);
  const TeamOptions team(*pool_, options.threads, options.pin_caller);
  MLC_ASSIGN(executor_, exec::Executor::create(plan_, *module_, *weights_, team, limits_of(options), model_.services(), model_.derived(variant_)));
  return ok();
}

Status Session::load_together(const SessionOptions& options) {
  if (options.profile) return Status(Code::Usage, "instructions are measured where runs are on one device");
  if (options.limits.memory_bytes != 0) return Status(Code::Usage, "a limit on memory is of a session on one device");
  const FoundDevices& found = *model_.found_devices();
  SessionOptions of_part = options;
  of_part.is_part = true;
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<Part> parts;
  const auto add = [&](Matcher matcher, const NamedDevice* device) -> Status {
    MLC_ASSIGN(std::shared_ptr<Session> session, load_part(std::move(matcher), device, of_part));
    device::Device* const opened = device ? static_cast<const OnDevice*>(session->on_devices_.get())->device : nullptr;
    parts.push_back({device ? device->name : kProcessor, session->variant().name, session, &session->plan_, session->executor_.get(), opened});
    sessions.push_back(std::move(session));
    return ok();
  };
  if (found.with_processor) MLC_RETURN_IF_ERROR(add(model_.copy_of_matcher(), nullptr));
  for (const NamedDevice& device : found.usable) MLC_RETURN_IF_ERROR(add(matcher_for(model_, device), &device));
  for (const Part& part : parts) MLC_RETURN_IF_ERROR(ensemble::have_same_functions(*parts[0].plan, *part.plan));

  Mapping mapping(model_, parts, options);
  MLC_RETURN_IF_ERROR(mapping.run());
  std::vector<exec::Plan> plans;
  for (const Part& part : parts) plans.push_back(*part.plan);
  MLC_ASSIGN(ensemble::Composition composition, ensemble::compose(std::move(plans), mapping.staged, std::move(mapping.place)));
  for (size_t k = 0; k < parts.size(); ++k) {
    MLC_RETURN_IF_ERROR(sessions[k]->start_part(std::move(composition.plans[k]), of_part));
    parts[k].executor = sessions[k]->executor_.get();
  }
  device_.clear();
  for (const Part& part : parts) device_ += (device_.empty() ? "" : ",") + part.name;
  on_devices_ = std::make_shared<Together>(Together{std::move(mapping.stages)});
  is_together_ = true;
  plan_ = std::move(composition.front);
  MLC_ASSIGN(auto runner, ensemble::PartsRunner::create(std::move(parts), std::move(composition.place),
                                                        [this](const std::string& line) { note_ += (note_.empty() ? "" : "; ") + line; }));
  const TeamOptions team(runner->pool(), 1);
  MLC_ASSIGN(executor_, exec::Executor::create(plan_, std::move(runner), *weights_, team, limits_of(options), model_.services()));
  return ok();
}

}  // namespace mlc::api
