#include "runtime/api/session/devices.h"

#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "loaders/cuda/cuda_devices.h"
#include "loaders/vulkan/vulkan_devices.h"
#include "runtime/api/devices/device_choice.h"
#include "runtime/api/devices/together.h"
#include "runtime/api/session/session.h"
#include "runtime/plan/device/device_runner.h"
#include "runtime/probe/devices.h"

namespace mlc::api {
namespace {

constexpr uint64_t kProbeNs = 10'000'000'000;

bool has_modules(std::span<const format::Variant> variants, format::ModuleFormat format) {
  return std::any_of(variants.begin(), variants.end(), [&](const format::Variant& v) { return v.module_format == format; });
}

// Numbered in the order in which they are preferred: real ones before software, each as its driver lists them. A card that is shown
// twice, by CUDA and by Vulkan, has one name.
std::vector<NamedDevice> named(std::vector<device::Info> found) {
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.is_software < b.is_software; });
  std::vector<NamedDevice> out;
  size_t cards = 0;
  for (device::Info& info : found) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const NamedDevice& d) { return d.info.identity == info.identity; });
    std::string name = same == out.end() ? compose("{}{}", kPrefix, cards++) : same->name;
    out.push_back({std::move(name), std::move(info)});
  }
  return out;
}

// By which variants reach devices; the first is preferred where a card has both.
struct Api {
  format::ModuleFormat format = format::ModuleFormat::None;
  const char* name = nullptr;
  std::string FoundDevices::* why_not = nullptr;
};
constexpr Api kApis[] = {{format::ModuleFormat::Ptx, "cuda", &FoundDevices::why_no_cuda}, {format::ModuleFormat::Spirv, "vulkan", &FoundDevices::why_no_vulkan}};

std::string& why_not(FoundDevices& found, std::string_view api) {
  const auto* of = std::find_if(std::begin(kApis), std::end(kApis), [&](const Api& a) { return a.name == api; });
  return found.*(of == std::end(kApis) ? kApis[0] : *of).why_not;
}

// Those that drivers show which some variant is for. `are_named`: not only those that are wanted by themselves.
FoundDevices ask_drivers(const std::string& program, bool are_named, std::span<const format::Variant> variants) {
  FoundDevices out;
  std::vector<device::Info> found;
  for (const Api& api : kApis) {
    if (!has_modules(variants, api.format)) continue;
    if (!are_named && api.format == format::ModuleFormat::Spirv && !probe::may_have_graphics()) {
      out.*api.why_not = compose("{}: drivers were not asked, for the kernel shows no device (/dev/dri, /dev/nvidia*, ...); software is used where it is named (--devices gpu0)", api.name);
      continue;
    }
    auto asked = probe::ask_child(program, api.name, kProbeNs);
    if (asked.ok() && !asked->empty()) {
      for (device::Info& info : *asked) found.push_back(std::move(info));
      continue;
    }
    out.*api.why_not = asked.ok() ? compose("{}: no device", api.name) : compose("{}: {}", api.name, asked.status().message);
  }
  out.all = named(std::move(found));
  return out;
}

bool has(const std::vector<NamedDevice>& devices, std::string_view name) {
  return std::any_of(devices.begin(), devices.end(), [&](const NamedDevice& d) { return d.name == name; });
}

std::shared_ptr<const FoundDevices> none(const char* why) { return std::make_shared<const FoundDevices>(FoundDevices{{}, {}, why, why}); }
constexpr const char* kOnlyProcessor = "only the processor is to be used";

// Of what drivers have shown, what is wanted.
Result<std::shared_ptr<const FoundDevices>> choose_devices(FoundDevices out, const std::string& wanted) {
  const std::vector<std::string_view> names = names_of(wanted);
  const auto wants = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (std::string_view name : names)
    if (is_name(name) && !has(out.all, name)) {
      Status s(Code::Usage, "there is no device '{}'", name);
      for (const NamedDevice& d : out.all) s.facts.push_back(compose("{}   {}, {}", d.name, d.info.title, d.info.api));
      for (const Api& api : kApis)
        if (!(out.*api.why_not).empty()) s.facts.push_back(out.*api.why_not);
      return s;
    }
  out.with_processor = wanted == "auto" || wants("cpu");
  for (const NamedDevice& d : out.all) {
    if (wanted == "auto" ? !d.info.is_software : wants(kPrefix) || wants(d.name)) out.usable.push_back(d);
    else if (std::string& why = why_not(out, d.info.api); why.empty())
      why = compose(d.info.is_software ? "{}, {}, is software: used when it is named (--devices {})" : "{}, {}, is not among --devices {}", d.name,
                                 d.info.title, d.info.is_software ? std::string_view(d.name) : std::string_view(wanted));
  }
  if (wanted == "cpu") out.why_no_cuda = out.why_no_vulkan = kOnlyProcessor;
  return {std::make_shared<const FoundDevices>(std::move(out))};
}

// What some group may use.
std::shared_ptr<const FoundDevices> joined(FoundDevices out, std::span<const std::shared_ptr<const FoundDevices>> groups) {
  for (const NamedDevice& d : out.all)
    if (std::any_of(groups.begin(), groups.end(), [&](const auto& g) { return has(g->usable, d.name); })) out.usable.push_back(d);
  for (const auto& group : groups)
    for (const Api& api : kApis)
      if ((out.*api.why_not).empty()) out.*api.why_not = *group.*api.why_not;
  return std::make_shared<const FoundDevices>(std::move(out));
}

}  // namespace

bool names_devices(std::string_view wanted) { return wanted != "auto" && wanted != "cpu"; }

Result<FoundByGroup> find_devices(const DeviceChoice& choice, std::span<const ProgramGroup> groups, std::span<const format::Variant> variants) {
  const auto all = [&](std::shared_ptr<const FoundDevices> found) { return FoundByGroup{{groups.size(), found}, found}; };
  if (std::all_of(groups.begin(), groups.end(), [](const ProgramGroup& g) { return g.wanted == "cpu"; })) return all(none(kOnlyProcessor));
  if (std::none_of(std::begin(kApis), std::end(kApis), [&](const Api& api) { return has_modules(variants, api.format); }))
    return all(none("no loader for such devices"));
  if (choice.probe_program.empty()) return all(none("nobody says which program asks drivers for devices"));
  FoundDevices asked = ask_drivers(choice.probe_program, std::any_of(groups.begin(), groups.end(), [](const ProgramGroup& g) { return names_devices(g.wanted); }), variants);
  asked.state_folder = choice.state_folder;
  FoundByGroup out;
  for (const ProgramGroup& group : groups) {
    MLC_ASSIGN(auto found, choose_devices(asked, group.wanted));
    out.groups.push_back(std::move(found));
  }
  out.together = groups.size() == 1 ? out.groups[0] : joined(std::move(asked), out.groups);
  return out;
}

ModelOnDevices& shared_on_devices(const Model& model) {
  SharedOnDevices& shared = model.shared_on_devices();
  const std::lock_guard lock(shared.mu);
  if (!shared.what) shared.what = std::make_shared<ModelOnDevices>();
  return *static_cast<ModelOnDevices*>(shared.what.get());
}

Result<std::unique_ptr<Session>> Session::create_on_processor(const Model& model, SessionOptions options) {
  if (!options.variant.empty())
    return Status(Code::NoVariant, 2001, "only variant '{}' may run, as was asked for", options.variant);
  Matcher matcher = model.matcher_of(options.group);
  for (const Assessment& a : matcher.assessments())
    if (is_for_device(model.manifest().variants[a.variant])) matcher.reject(a.variant, "not for the processor");
  options.profile = false;
  return load_best(model, matcher, options);
}

// One thread, which waits for the device.
Status Session::load_for_device(Compatible token, VerifiedBytes bytes, const SessionOptions& options) {
  if (options.on_several()) return load_together(options);
  const std::string identity = token.device();
  const bool by_cuda = variant().module_format == format::ModuleFormat::Ptx;
  MLC_ASSIGN(device::Device * device, by_cuda ? cuda::open_device(identity) : vulkan::open_device(identity));
  MLC_ASSIGN(std::shared_ptr<device::Module> module, device->load(std::move(token), std::move(bytes)));
  MLC_RETURN_IF_ERROR(load_plan(module->num_kernels()));
  exec::DeviceConstants* weights = nullptr;
  {
    auto& uploaded = shared_on_devices(model_).uploaded;
    const std::lock_guard lock(model_.shared_on_devices().mu);
    auto& found = uploaded[device->info().api + " " + identity];
    if (!found) found = std::make_unique<exec::DeviceConstants>(*device);
    weights = found.get();
  }
  on_devices_ = std::make_shared<OnDevice>(OnDevice{device, std::move(module), weights});
  return start_on_device(options);
}

Status Session::start_on_device(const SessionOptions& options) {
  const OnDevice& on = *static_cast<const OnDevice*>(on_devices_.get());
  const auto other = std::make_shared<std::unique_ptr<Session>>();
  const auto open = [this, options, other]() -> Result<exec::Substitute::Other> {
    MLC_ASSIGN(*other, create_on_processor(model_, options));
    return exec::Substitute::Other{&(*other)->plan_, (*other)->executor_.get(), (*other)->variant().name};
  };
  const auto tell_once = [this](const std::string& line) { tell(line); };
  hear_device_ = [this, device = on.device] {
    for (const std::string& line : device->remarks()) tell(line);
  };
  // A part of several says that it cannot: the others are there already.
  auto substitute = options.is_part ? nullptr : std::make_unique<exec::Substitute>(open, tell_once);
  MLC_ASSIGN(auto runner, exec::DeviceRunner::create(*on.device, on.module, plan_, *weights_, *on.weights, std::move(substitute)));
  const TeamOptions team(*pool_, 1, options.pin_caller);
  MLC_ASSIGN(executor_, exec::Executor::create(plan_, std::move(runner), team, limits_of(options), model_.services()));
  return ok();
}

}  // namespace mlc::api
