#include "runtime/api/session/session.h"

#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "loaders/elf/elf_loader.h"
#include "loaders/portable/portable_loader.h"
#include "runtime/api/session/pool.h"
#include "runtime/api/session/ports.h"
#include "runtime/match/clauses.h"
#include "runtime/probe/probe.h"

namespace mlc::api {
namespace {

std::unique_ptr<Loader> loader_for(format::ModuleFormat f) {
  switch (f) {
    case format::ModuleFormat::Elf: return elf::make_elf_loader();
    case format::ModuleFormat::Portable: return portable::make_portable_loader();
    case format::ModuleFormat::None:
    case format::ModuleFormat::Ptx:
    case format::ModuleFormat::Spirv: break;
  }
  return nullptr;
}

// Whether another variant may be tried after this failure. Damage and broken trust concern the whole file.
bool may_fall_back(Code code) {
  return code == Code::Resource || code == Code::NoVariant || code == Code::Unsupported || code == Code::NotFound;
}

}  // namespace

Result<const std::byte*> Session::Weights::acquire(uint32_t tensor, uint32_t copy) const {
  alignas(64) static constexpr std::byte kNothing[64] = {};
  const auto& copies = container_.manifest().tensors[tensor].copies;
  if (copies.empty()) return kNothing;  // a tensor without elements
  const format::Ref& ref = copies[copy].ref;
  return container_.acquire(ref.segment, ref.offset, ref.length);
}

void Session::Weights::prepare(uint32_t tensor, uint32_t copy, uint64_t offset, uint64_t length) const {
  const auto& copies = container_.manifest().tensors[tensor].copies;
  if (copies.empty()) return;
  container_.prepare(copies[copy].ref.segment, copies[copy].ref.offset + offset, length);
}

Status Session::load(Compatible token, const SessionOptions& options) {
  const format::Variant& v = variant();
  if (options.on_several() && !is_for_device(v)) return Status(Code::Usage, "no variant runs on the devices that are named");
  if (!v.plan || !v.module) return Status(Code::Unsupported, "variant '{}' has no plan or no code", v.name);
  MLC_ASSIGN(VerifiedBytes module, model_.container().segment(*v.module));
  weights_ = std::make_unique<Weights>(model_.container());
  return is_for_device(v) ? load_for_device(std::move(token), std::move(module), options)
                          : load_on_processor(std::move(token), std::move(module), options);
}

Status Session::load_plan(uint32_t num_kernels) {
  const container::Container& c = model_.container();
  MLC_ASSIGN(const VerifiedBytes bytes, c.segment(*variant().plan));
  const format::Manifest& m = c.manifest();
  exec::PlanContext context;
  context.num_kernels = num_kernels;
  context.constant_bytes = [&m](uint32_t tensor, uint32_t copy) { return format::copy_bytes(m.tensors, tensor, copy); };
  auto plan = exec::decode_plan(bytes.bytes(), context);
  if (!plan) return std::move(plan).status().note(bytes.name());
  if (model_.num_groups() > 1) keep_group(m, model_.methods_of(group_), *plan);
  if (Status fits = check_ports(m, model_.methods_of(group_), *plan); !fits.ok()) return std::move(fits).note(bytes.name());
  plan_ = std::move(*plan);
  return model_.is_trusted() ? ok() : check_declared();
}

exec::Limits Session::limits_of(const SessionOptions& options) const {
  exec::Limits limits = limits_for(model_.is_trusted(), options.limits, probe::host().memory.effective_free_bytes);
  limits.allocator = allocator();
  return limits;
}

Status Session::load_on_processor(Compatible token, VerifiedBytes bytes, const SessionOptions& options) {
  const auto loader = loader_for(variant().module_format);
  if (!loader) return Status(Code::Unsupported, "no loader for modules of kind {}", name_of(variant().module_format));
  MLC_ASSIGN(module_, loader->load(std::move(token), std::move(bytes)));
  MLC_RETURN_IF_ERROR(load_plan(module_->num_kernels()));
  const unsigned threads = options.threads > 0 || options.pool ? options.threads : probe::host().topology.workers;
  const TeamOptions team(*pool_, threads, options.pin_caller);
  MLC_ASSIGN(executor_, exec::Executor::create(plan_, *module_, *weights_, team, limits_of(options), model_.services(), model_.derived(variant_)));
  return ok();
}

Status Session::check_declared() const {
  const std::vector<uint32_t>& declared = variant().features;
  for (const exec::Function& f : plan_.functions)
    for (const exec::Step& step : f.steps) {
      if (step.op != StepOp::Host) continue;
      const auto names_it = [&](uint32_t feature) { return match::is_service_named(feature, step.service); };
      if (std::none_of(declared.begin(), declared.end(), names_it))
        return Status(Code::NoVariant, 2001, "the plan uses the service '{}', which variant '{}' does not declare",
                      step.service, variant().name);
    }
  return ok();
}

Result<std::unique_ptr<Session>> Session::load_best(const Model& model, Matcher& matcher, const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session(model, options.group));
  session->allocator_ = options.allocator;
  if (!options.pool) {
    const probe::Topology& host = probe::host().topology;
    MLC_ASSIGN(PoolOptions pool, pool_options(host, probe::workers_for(host, UINT32_MAX)));  // of all cores: sessions may want them
    pool.near_workers = host.near_cores();
    MLC_ASSIGN(session->common_pool_, WorkerPool::join_common(pool));
  }
  session->pool_ = options.pool ? options.pool : session->common_pool_.get();

  for (;;) {
    MLC_ASSIGN(const std::vector<uint32_t> candidates, matcher.candidates(options.variant, options.require));
    session->variant_ = candidates.front();
    const NamedDevice* const device = matcher.device_of(session->variant_);
    session->device_ = device ? device->name : "";
    auto token = matcher.admit(session->variant_);
    Status failure = token ? session->load(std::move(*token), options) : std::move(token).status();
    if (failure.ok()) break;
    if (!may_fall_back(failure.code) || !options.variant.empty()) return failure;
    if (!session->note_.empty()) session->note_ += "; ";
    session->note_ += compose("{} left out: {}", session->variant().name, failure.message);
    matcher.reject(session->variant_, failure.message);
  }
  session->executor_->set_profiling(options.profile);
  return session;
}

Result<std::unique_ptr<Session>> Session::create(const Model& model, const SessionOptions& options) {
  Matcher matcher = model.matcher_of(options.group);
  MLC_ASSIGN(auto session, load_best(model, matcher, options));
  if (session->device_.empty() && model.wants_device(options.group) && options.variant.empty()) {
    if (!session->note_.empty()) session->note_ += "; ";
    session->note_ += compose("{} runs on the processor, since no variant runs on the devices that were named", session->variant().name);
  }
  return session;
}

exec::RunOptions Session::how(const RunOptions& options) const {
  exec::RunOptions out{options.cancelled, std::nullopt};
  if (options.time_ns != 0) out.work = work_limits_for(model_.is_trusted(), options.time_ns);
  return out;
}

Status Session::run(uint32_t function, std::span<const exec::InputArg> inputs, std::span<exec::OutputArg> outputs,
                    const RunOptions& options) {
  MLC_RETURN_IF_ERROR(model_.container().unchanged());
  MLC_RETURN_IF_ERROR(executor_->run(function, inputs, outputs, how(options)));
  return model_.container().unchanged();
}

Result<uint32_t> Session::function(const char* name) const {
  const std::string_view program = name ? std::string_view(name) : model_.manifest().methods[model_.main_method()].name;
  if (const auto index = plan_.find(program)) return *index;
  Status s(Code::Usage, "no program '{}' in variant '{}'", program, variant().name);
  std::string names;
  for (const exec::Function& f : plan_.functions) names += (names.empty() ? "" : ", ") + f.name;
  return std::move(s).fact("it has {}", names);
}

}  // namespace mlc::api
