#include "runtime/api/model.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/compose.h"
#include "runtime/probe/probe.h"

namespace mlc::api {

Model::Model(std::unique_ptr<container::Container> container, MatchPolicy policy)
    : container_(std::move(container)),
      matcher_(probe::host(), container_->manifest().variants, std::move(policy)) {}

Result<ModelFile> ModelFile::authenticate(ModelOptions options) {
  MLC_ASSIGN(signing::TrustSet trust, signing::TrustSet::load(options.trust));
  auto file = !options.path.empty()     ? container::AuthenticatedFile::open(options.path)
              : options.descriptor >= 0 ? container::AuthenticatedFile::open_descriptor(options.descriptor)
                                        : container::AuthenticatedFile::open_memory(options.memory, "the container in memory");
  if (!file) return std::move(file).status();
  signing::DecideOptions decide;
  decide.allow_unsigned = options.allow_unsigned;
  decide.now = static_cast<uint64_t>(std::time(nullptr));
  decide.file = file->name();
  const auto& authentication = file->authentication();
  auto native_code = signing::NativeCode::Never;
  if (authentication) native_code = signing::native_code_before_manifest(*authentication, trust, decide);
  return ModelFile{std::move(options), std::move(trust), std::move(*file), native_code, decide.now};
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
  how.now = file.now;
  how.workers = probe::workers_for(probe::host().topology, 0);
  auto opened = container::Container::open(std::move(file.file), how);
  if (!opened) return std::move(opened).status();
  const bool allowed = (*opened)->native_allowed();
  MatchPolicy policy{allowed, allowed ? std::string() : (*opened)->verdict().reason};
  const auto& without_trust = file.options.untrusted_services;
  std::vector<exec::Service> services;
  for (const exec::Service& service : file.options.services) {
    const bool granted =
        allowed || std::find(without_trust.begin(), without_trust.end(), service.name) != without_trust.end();
    (granted ? policy.services : policy.withheld).push_back(service.name);
    if (granted) services.push_back(service);
  }
  std::unique_ptr<Model> model(new Model(std::move(*opened), std::move(policy)));
  model->services_ = std::move(services);
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
