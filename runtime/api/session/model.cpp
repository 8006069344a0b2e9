#include "runtime/api/session/model.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/compose.h"
#include "runtime/match/choices.h"
#include "runtime/probe/probe.h"
#include "signing/files/owned_file.h"
#include "signing/version_marks.h"

namespace mlc::api {

Model::Model(std::unique_ptr<Allocator> allocator, std::unique_ptr<container::Container> container, MatchPolicy policy, std::shared_ptr<const FoundDevices> devices)
    : allocator_(std::move(allocator)),
      container_(std::move(container)),
      devices_(std::move(devices)),
      matcher_(probe::host(), container_->manifest().variants, std::move(policy)) {}

namespace {

// Raises the marks of a trusted signer whose version is above what was seen: as soon as its signature is accepted, since
// a process that looks into the file may not write any more. Where that fails the next run does not know of this
// version, which is said, and an error where the policy wants the version remembered.
Status remember(const signing::Statement& statement, const signing::Verdict& signer, const signing::VersionMarks& seen,
                const std::string& folder, std::vector<std::string>& notes) {
  if (signer.trust != signing::Trust::Trusted ||
      std::all_of(signer.signers.begin(), signer.signers.end(), [&](const Digest& key) {
        return seen.version(key, statement.model_id) >= statement.model_version;
      }))
    return ok();
  Status status = signing::remember_version(folder, signer.signers, statement.model_id, statement.model_version);
  if (status.ok() || signer.marks_required) return status;
  notes.push_back("this version is not remembered: " + status.message);
  return ok();
}

Result<std::unique_ptr<container::Source>> source_of(const ModelOptions& o) {
  if (!o.path.empty()) return container::open_file(o.path);
  if (o.memory.data()) return container::memory_source(o.memory, o.name.empty() ? "the container in memory" : o.name);
  if (o.descriptor >= 0) return container::open_descriptor(o.descriptor, o.name);
  return container::reader_source(o.reader, o.name.empty() ? "the container" : o.name);
}

uint32_t main_of(const container::Container& container) {
  return container.find_method("main").value_or(container.manifest().model.default_method);
}

}  // namespace

Result<ModelFile> ModelFile::authenticate(ModelOptions options) {
  MLC_ASSIGN(signing::TrustSet trust, signing::TrustSet::load(options.trust));
  MLC_ASSIGN(std::unique_ptr<container::Source> source, source_of(options));
  auto file = container::AuthenticatedFile::open_source(std::move(source));
  if (!file) return std::move(file).status();
  ModelFile out{std::move(options), std::move(trust), std::move(*file)};
  out.now = static_cast<uint64_t>(std::time(nullptr));
  const std::string& state = out.options.state_folder;
  if (!state.empty()) {
    MLC_ASSIGN(out.seen, signing::VersionMarks::load(state));
  }
  const auto& authentication = out.file.authentication();
  if (!authentication) return out;  // cut off
  signing::DecideOptions decide;
  decide.allow_unsigned = out.options.allow_unsigned;
  decide.allow_older = out.options.allow_older;
  decide.marks = out.seen ? &*out.seen : nullptr;
  decide.now = out.now;
  decide.file = out.file.name();
  signing::Verdict signer = signing::decide_signer(*authentication, out.trust, decide);
  if (signer.may_run == signing::MayRun::Refused) return std::move(signer.status);
  out.native_code = signing::native_code_before_manifest(signer, *authentication, out.trust, decide);
  if (out.seen && authentication->is_signed())
    MLC_RETURN_IF_ERROR(remember(*authentication->statement(), signer, *out.seen, state, out.notes));
  return out;
}

Result<std::unique_ptr<Model>> Model::open(const ModelOptions& options) {
  MLC_ASSIGN(ModelFile file, ModelFile::authenticate(options));
  return open(std::move(file));
}

Result<std::unique_ptr<Model>> Model::open(ModelFile file) {
  container::OpenOptions how;
  how.verify = file.options.verify;
  how.trust = &file.trust;
  how.allow_unsigned = file.options.allow_unsigned;
  how.allow_older = file.options.allow_older;
  how.marks = file.seen ? &*file.seen : nullptr;
  how.now = file.now;
  std::unique_ptr<Allocator> allocator;
  if (file.options.allocator) allocator = std::make_unique<Allocator>(*file.options.allocator);
  how.allocator = allocator.get();
  how.workers = probe::workers_for(probe::host().topology, 0);
  auto opened = container::Container::open(std::move(file.file), how);
  if (!opened) return std::move(opened).status();
  const bool allowed = (*opened)->native_allowed();
  MatchPolicy policy{allowed};
  if (!allowed) policy.why_not = (*opened)->verdict().reason, policy.how_to_allow = (*opened)->verdict().help;
  const auto& without_trust = file.options.untrusted_services;
  std::vector<exec::Service> services;
  for (const exec::Service& service : file.options.services) {
    const bool granted =
        allowed || std::find(without_trust.begin(), without_trust.end(), service.name) != without_trust.end();
    (granted ? policy.services : policy.withheld).push_back(service.name);
    if (granted) services.push_back(service);
  }
  // Drivers are asked only for what may run.
  const format::Manifest& manifest = (*opened)->manifest();
  MLC_ASSIGN(std::vector<ProgramGroup> groups, group_programs(file.options.devices, manifest, main_of(**opened)));
  FoundByGroup found;
  if (allowed && std::any_of(manifest.variants.begin(), manifest.variants.end(), is_for_device)) {
    MLC_ASSIGN(found, find_devices(file.options.devices, groups, manifest.variants));
    policy.why_no_cuda = policy.why_no_vulkan = "this library has no loader for devices (libmlrt-gpu has)";
  }
  if (found.together) cut_by_code(manifest, policy, groups, found);
  std::vector<uint32_t> all(manifest.methods.size());
  std::iota(all.begin(), all.end(), 0);
  policy.methods = manifest.methods;
  const bool is_one = groups.size() == 1 || !found.together;
  MatchPolicy of_all = with_devices(policy, found.together.get());
  if (is_one) of_all.programs = all;
  std::unique_ptr<Model> model(new Model(std::move(allocator), std::move(*opened), std::move(of_all), found.together));
  model->all_methods_ = std::move(all);
  for (size_t i = 0; i < groups.size() && !is_one; ++i) {
    policy.programs = groups[i].methods;
    model->groups_.push_back({std::move(groups[i].methods), found.groups[i], Matcher(probe::host(), manifest.variants, with_devices(policy, found.groups[i].get())),
                              names_devices(groups[i].wanted)});
  }
  model->wants_device_ = std::any_of(groups.begin(), groups.end(), [](const ProgramGroup& g) { return names_devices(g.wanted); });
  model->services_ = std::move(services);
  model->notes_ = std::move(file.notes);
  for (const auto* more : {&model->container_->notes(), &model->container_->verdict().warnings})
    model->notes_.insert(model->notes_.end(), more->begin(), more->end());
  if (allowed) model->recall_choices(file.options.state_folder);
  return model;
}

// A list that cannot be read, or that others can change, is none: nothing depends on it but time.
void Model::recall_choices(const std::string& state_folder) {
  if (state_folder.empty()) return;
  const auto text = signing::read_owned_file(state_folder + "/" + std::string(match::kChoicesName), 2 * match::kMostChoiceBytes);
  if (!text.ok() || !*text) return;
  const auto list = match::ChoiceList::parse(**text, &container_->root());
  const auto here = match::fingerprints(probe::host(), devices());
  match::apply_faults(list, container_->root(), here, manifest().variants, matcher_, notes_);
  std::vector<std::string> noted;  // the same again
  for (Group& group : groups_) match::apply_faults(list, container_->root(), here, manifest().variants, group.matcher, noted);
  for (uint32_t method = 0; method < manifest().methods.size(); ++method)
    measured_.push_back(match::measured_of(list, container_->root(), here, manifest().variants, matcher_of(group_of(method)), manifest().methods[method].name));
  matcher_.remember(measured_[main_method()]);
  std::vector<Group> groups = std::move(groups_), split;
  groups_.clear();
  if (groups.empty()) groups.push_back({all_methods_, devices_, matcher_, wants_device_});
  for (const Group& group : groups)
    for (Group& part : split_by_choice(group)) split.push_back(std::move(part));
  is_split_by_choices_ = split.size() > groups.size();
  if (split.size() > 1) groups_ = std::move(split);
}

std::vector<Model::Group> Model::split_by_choice(const Group& group) const {
  // State is that of a session: programs that keep some stay together.
  std::optional<uint32_t> with_state;
  std::map<std::optional<uint32_t>, Group> parts;  // by the variant that is taken first
  const auto first_of = [&](uint32_t method) -> std::optional<uint32_t> {
    for (const MeasuredVariant& one : measured_[method])
      if (one.is_chosen) return one.variant;
    return std::nullopt;
  };
  const auto add = [&](uint32_t method) {
    if (!manifest().methods[method].state.empty() && !with_state) with_state = method;
    const uint32_t like = manifest().methods[method].state.empty() ? method : *with_state;
    const auto [part, is_new] = parts.emplace(first_of(like), group);
    if (is_new) part->second.methods.clear(), part->second.matcher.remember(measured_[like]);
    part->second.methods.push_back(method);
  };
  std::ranges::for_each(group.methods, add);
  const auto has_main = [&](const Group& part) { return std::find(part.methods.begin(), part.methods.end(), main_method()) != part.methods.end(); };
  std::vector<Group> out;
  for (const bool is_first : {true, false})
    for (auto& [variant, part] : parts)
      if (!part.methods.empty() && has_main(part) == is_first) out.push_back(std::move(part));
  return out;
}

std::span<const MeasuredVariant> Model::measured_of(uint32_t method) const {
  return method < measured_.size() ? std::span<const MeasuredVariant>(measured_[method]) : std::span<const MeasuredVariant>();
}

Result<Bytes> Model::keep(const std::string& key, Result<VerifiedBytes> bytes) const {
  if (!bytes) return std::move(bytes).status();
  const std::lock_guard lock(mu_);
  return kept_.emplace(key, std::move(*bytes)).first->second.bytes();  // the first one stays, others may hold it
}

Result<Bytes> Model::asset(std::string_view name) const {
  const std::string key = compose("asset {}", name);
  {
    const std::lock_guard lock(mu_);
    if (auto i = kept_.find(key); i != kept_.end()) return i->second.bytes();
  }
  const auto index = container_->find_asset(name);
  if (!index) return Status(Code::NotFound, "no asset '{}' in {}", name, container_->name());
  return keep(key, container_->asset(*index));
}

Result<Bytes> Model::golden_array(const format::Ref& ref) const {
  if (ref.length == 0) return Bytes();
  const std::string key = compose("range {} {} {}", ref.segment, ref.offset, ref.length);
  {
    const std::lock_guard lock(mu_);
    if (auto i = kept_.find(key); i != kept_.end()) return i->second.bytes();
  }
  return keep(key, container_->bytes(ref));
}

std::shared_ptr<exec::DerivedConstants> Model::derived(uint32_t variant) const {
  const std::lock_guard lock(mu_);
  auto& found = derived_[variant];
  if (!found) found = std::make_shared<exec::DerivedConstants>(allocator_.get());
  return found;
}

uint32_t Model::main_method() const { return main_of(*container_); }

uint32_t Model::group_of(uint32_t method) const {
  for (uint32_t i = 1; i < groups_.size(); ++i)
    if (const auto& methods = groups_[i].methods; std::find(methods.begin(), methods.end(), method) != methods.end()) return i;
  return 0;
}

std::string Model::programs_of(uint32_t group) const {
  std::string out;
  for (uint32_t i = 0; i < manifest().methods.size(); ++i)
    if (group_of(i) == group) out += (out.empty() ? "" : ", ") + manifest().methods[i].name;
  return out;
}

}  // namespace mlc::api
