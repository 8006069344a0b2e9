// Sessions on several devices together. Of libmlrt-gpu.
#include "runtime/api/devices/together.h"

#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "runtime/api/devices/together_mapping.h"
#include "runtime/api/session/devices.h"
#include "runtime/api/sizes.h"
#include "runtime/probe/probe.h"

namespace mlc::api {
namespace {

using ensemble::Part;

constexpr const char* kProcessor = "cpu";

// Which variants suit one device alone: a matcher gives each variant to the first one that it fits.
Matcher matcher_for(const Model& model, uint32_t group, const NamedDevice& device) {
  MatchPolicy policy;  // code of devices runs only where trust is settled
  for (const exec::Service& service : model.services()) policy.services.push_back(service.name);
  policy.devices = {&device, 1};
  policy.programs = model.methods_of(group);
  policy.methods = model.manifest().methods;
  return Matcher(probe::host(), model.manifest().variants, std::move(policy));
}

std::string of_number(uint64_t n) { return compose("{} ", n); }
std::string of_pointer(const void* p) { return of_number(reinterpret_cast<uintptr_t>(p)); }

// What sessions have in common that do their requests together.
std::string key_of(const SessionOptions& o) {
  std::string key = of_number(o.group) + of_number(o.threads) + of_number(o.pin_caller) + of_number(o.profile) + of_number(o.limits.time_ns) + of_number(o.limits.memory_bytes) + of_pointer(o.pool);
  if (o.allocator) {
    key += of_pointer(o.allocator->user) + of_pointer(reinterpret_cast<const void*>(o.allocator->allocate));
    key += of_pointer(reinterpret_cast<const void*>(o.allocator->release));
  }
  return key + "/" + (o.placement ? o.placement : "");
}

}  // namespace

int Session::stage(uint32_t index, MlcStage* out) const {
  if (!is_together_) return MLC_NOT_FOUND;
  const auto& stages = static_cast<const Together*>(on_devices_.get())->stages;
  if (index >= stages.size()) return MLC_NOT_FOUND;
  const PlacedStage& s = stages[index];
  return fill(MlcStage{0, s.segments.c_str(), s.device.c_str(), s.variant.c_str(), s.ns, s.copies_ns, s.why.c_str(), s.mode.c_str()}, out);
}

uint32_t Session::num_stages() const {
  return is_together_ ? static_cast<uint32_t>(static_cast<const Together*>(on_devices_.get())->stages.size()) : 0;
}

// Of several parts one behind the other: all that they have run.
Session::Profiled Session::profiled(uint32_t function, uint32_t index) const {
  if (!is_together_) return {*executor_, function, index, device_};
  for (const Part& part : static_cast<const Together*>(on_devices_.get())->ensemble->parts())
    for (uint32_t f = 0; f < part.plan->functions.size(); ++f) {
      if (part.plan->functions[f].is_program()) continue;
      const uint64_t known = part.executor->profile_size(f);
      if (index < known) return {*part.executor, f, index, part.name};
      index -= static_cast<uint32_t>(known);
    }
  return {*executor_, function, UINT32_MAX, device_};
}

// The best variant that loads.
Result<std::shared_ptr<Session>> Session::load_part(Matcher matcher, const NamedDevice* device, const SessionOptions& options) {
  for (;;) {
    MLC_ASSIGN(std::vector<uint32_t> candidates, matcher.candidates({}, {}));
    std::erase_if(candidates, [&](uint32_t v) { return is_for_device(model_.manifest().variants[v]) != (device != nullptr); });
    if (candidates.empty()) return Status(Code::NoVariant, "no variant runs on {}", device ? device->name : kProcessor);
    std::shared_ptr<Session> part(new Session(model_, group_));
    part->allocator_ = allocator_;
    part->pool_ = pool_;
    part->variant_ = candidates.front();
    if (device) part->device_ = device->name;
    auto token = matcher.admit(part->variant_);
    Status failure = token ? part->load(std::move(*token), options) : std::move(token).status();
    if (failure.ok()) return part;
    if (failure.code != Code::Resource && failure.code != Code::NoVariant && failure.code != Code::Unsupported) return failure;
    tell(compose("{} left out: {}", part->variant().name, failure.message));
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

// The processor and all devices that load, but those that are lost.
Status Session::load_parts(const SessionOptions& options, const std::vector<std::string>& lost, std::vector<std::shared_ptr<Session>>& sessions, std::vector<Part>& parts) {
  const auto add = [&](Matcher matcher, const NamedDevice* device) -> Status {
    MLC_ASSIGN(std::shared_ptr<Session> session, load_part(std::move(matcher), device, options));
    device::Device* const opened = device ? static_cast<const OnDevice*>(session->on_devices_.get())->device : nullptr;
    parts.push_back({device ? device->name : kProcessor, session->variant().name, session, &session->plan_, session->executor_.get(), opened});
    sessions.push_back(std::move(session));
    return ok();
  };
  const FoundDevices& found = *model_.found_devices(options.group);
  if (found.with_processor) MLC_RETURN_IF_ERROR(add(model_.matcher_of(options.group), nullptr));
  Status none(Code::NoVariant, "no device is left that runs it");
  for (const NamedDevice& device : found.usable) {
    if (std::find(lost.begin(), lost.end(), device.name) != lost.end()) continue;
    Status status = add(matcher_for(model_, options.group, device), &device);
    if (status.code == Code::Resource || status.code == Code::NoVariant || status.code == Code::Unsupported) none = std::move(status);
    else MLC_RETURN_IF_ERROR(std::move(status));
  }
  if (parts.empty()) return none;
  for (const Part& part : parts) MLC_RETURN_IF_ERROR(ensemble::have_same_functions(*parts[0].plan, *part.plan));
  return ok();
}

Result<std::shared_ptr<Together>> Session::put_together(const SessionOptions& options, const SessionOptions& of_part, std::span<const std::shared_ptr<Session>> sessions,
                                                        std::vector<Part>& parts) {
  std::optional<ensemble::Objective> objective;
  if (options.objective && !(objective = ensemble::objective_named(options.objective)))
    return Status(Code::Usage, "objective '{}': expected latency, memory or throughput", options.objective);
  Mapping mapping(model_, parts, options, objective);
  MLC_RETURN_IF_ERROR(mapping.run());
  std::vector<exec::Plan> plans;
  for (const Part& part : parts) plans.push_back(*part.plan);
  MLC_ASSIGN(ensemble::Composition composition, ensemble::compose_plan(std::move(plans), mapping.staged, std::move(mapping.place)));
  auto out = std::make_shared<Together>();
  for (size_t k = 0; k < parts.size(); ++k) {
    MLC_RETURN_IF_ERROR(sessions[k]->start_part(std::move(composition.plans[k]), of_part));
    sessions[k]->executor_->set_profiling(options.profile);
    parts[k].executor = sessions[k]->executor_.get();
    out->devices += (k == 0 ? "" : ",") + parts[k].name;
  }
  out->front = std::move(composition.front);
  for (const uint32_t part : composition.place) out->places.push_back({.part = part});
  for (auto& [function, place] : mapping.wide) out->places[function] = std::move(place);
  out->stages = std::move(mapping.stages);
  out->ensemble = std::make_shared<ensemble::Ensemble>(parts);
  for (const Mapping::Expected& e : mapping.expected) out->ensemble->expect(e.function, e.part, e.ns);
  return out;
}

// A device that is lost meanwhile is left out, and the others begin anew.
Result<std::shared_ptr<Together>> Session::open_together(const SessionOptions& options) {
  SessionOptions of_part = options;
  of_part.is_part = true;
  std::vector<std::string> lost;
  for (;;) {
    std::vector<std::shared_ptr<Session>> sessions;
    std::vector<Part> parts;
    MLC_RETURN_IF_ERROR(load_parts(of_part, lost, sessions, parts));
    auto made = put_together(options, of_part, sessions, parts);
    if (made.ok() || made.status().code != Code::Resource) return made;
    const size_t before = lost.size();
    for (const Part& part : parts) {
      if (part.is_alive()) continue;
      lost.push_back(part.name);
      tell(compose("{} left out: {}", part.name, made.status().message));
    }
    if (lost.size() == before) return made;
  }
}

Result<std::shared_ptr<Together>> Session::join_together(const SessionOptions& options) {
  if (!options.objective || std::string_view(options.objective) != "throughput") return open_together(options);
  SharedTogether& shared = shared_on_devices(model_).together;
  const std::lock_guard lock(shared.mu);
  std::weak_ptr<Together>& known = shared.by_options[key_of(options)];
  if (auto found = known.lock()) return found;
  MLC_ASSIGN(auto made, open_together(options));
  made->is_shared = true;
  known = made;
  return made;
}

Status Session::load_together(const SessionOptions& options) {
  MLC_ASSIGN(std::shared_ptr<Together> together, join_together(options));
  device_ = together->devices;
  plan_ = together->front;
  MLC_ASSIGN(auto runner, ensemble::PartsRunner::create(together->ensemble, together->places, together->is_shared,
                                                        [this](const std::string& line) { tell(line); }));
  const bool one_at_a_time = together->is_one_at_a_time();
  on_devices_ = std::move(together);
  is_together_ = true;
  const TeamOptions team(runner->pool(), 1);
  ensemble::PartsRunner& parts = *runner;
  MLC_ASSIGN(executor_, exec::Executor::create(plan_, std::move(runner), team, limits_of(options), model_.services()));
  const uint64_t limit = options.limits.memory_bytes;
  if (limit != 0 && limit != kNoLimit) parts.share_memory(executor_->budget(), limit, one_at_a_time ? 1 : parts.num_parts());
  return ok();
}

}  // namespace mlc::api
