#include "runtime/api/model.h"

#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "runtime/probe/probe.h"
#include "signing/version_marks.h"

namespace mlc::api {

Model::Model(std::unique_ptr<container::Container> container, MatchPolicy policy)
    : container_(std::move(container)),
      matcher_(probe::host(), container_->manifest().variants, std::move(policy)) {}

namespace {

// Raises the mark of a trusted file that is newer than what was seen. Where that fails the next run does not know of this
// version, which is said, and an error where the policy wants the version remembered.
Status remember(const container::Container& file, const signing::VersionMarks& seen, const std::string& folder,
                std::vector<std::string>& notes) {
  const signing::Verdict& verdict = file.verdict();
  const format::Model& model = file.manifest().model;
  if (verdict.trust != signing::Trust::Trusted ||
      std::all_of(verdict.signers.begin(), verdict.signers.end(),
                  [&](const Digest& key) { return seen.version(key, model.id) >= model.version; }))
    return ok();
  Status status = signing::remember_version(folder, verdict.signers, model.id, model.version);
  if (status.ok() || verdict.marks_required) return status;
  notes.push_back("this version is not remembered: " + status.message);
  return ok();
}

}  // namespace

Result<std::unique_ptr<Model>> Model::open(const ModelOptions& options) {
  MLC_ASSIGN(const signing::TrustSet trust, signing::TrustSet::load(options.trust));
  const bool remembers = !options.state_folder.empty();
  signing::VersionMarks seen;
  if (remembers) {
    MLC_ASSIGN(seen, signing::VersionMarks::load(options.state_folder));
  }
  container::OpenOptions how;
  how.verify = options.verify;
  how.trust = &trust;
  how.allow_unsigned = options.allow_unsigned;
  how.allow_older = options.allow_older;
  how.marks = remembers ? &seen : nullptr;
  auto opened = options.path.empty() ? container::Container::open_memory(options.memory, "the container in memory", how)
                                     : container::Container::open(options.path, how);
  if (!opened) return std::move(opened).status();
  const bool allowed = (*opened)->native_allowed();
  MatchPolicy policy{allowed, allowed ? std::string() : (*opened)->verdict().reason};
  for (const exec::Service& service : options.services) policy.services.push_back(service.name);
  std::unique_ptr<Model> model(new Model(std::move(*opened), std::move(policy)));
  model->services_ = options.services;
  const container::Container& file = *model->container_;
  model->notes_ = file.notes();
  model->notes_.insert(model->notes_.end(), file.verdict().warnings.begin(), file.verdict().warnings.end());
  if (remembers) MLC_RETURN_IF_ERROR(remember(file, seen, options.state_folder, model->notes_));
  return model;
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

uint32_t Model::main_method() const {
  if (const auto main = container_->find_method("main")) return *main;
  return manifest().model.default_method;
}

}  // namespace mlc::api
