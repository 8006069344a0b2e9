#include "registry/policy.h"

#include <array>
#include <filesystem>

#include "packager/container/output_file.h"
#include "registry/part_readers.h"
#include "registry/texts/shapes.h"
#include "runtime/container/source.h"
#include "signing/envelope.h"
#include "signing/files/file.h"
#include "signing/rotation/policy_bundle.h"

namespace mlc::registry {
namespace {

using Chain = std::vector<signing::PolicyBundle>;

Status for_containers_only(const char* flag) { return Status(Code::Usage, "{} is for containers, and this is a policy bundle", flag); }

Manifest policy_manifest(const std::string& text, const Chain& chain) {
  Manifest manifest;
  manifest.media_type = kManifestType;
  manifest.artifact_type = kPolicyType;
  manifest.config = empty_config();
  // The name is what tools that write layers as files call it; none is read from here.
  manifest.layers = {{std::string(kPolicyType), sha256(text), text.size(), {}, {{"org.opencontainers.image.title", "policy.bundle"}}, {}, {}}};
  manifest.annotations = {{std::string(kPolicyVersionAnnotation), std::to_string(chain.back().policy.version)}};
  return manifest;
}

// Its bytes, asked for once more if they are wrong.
Result<std::string> fetched_layer(Client& client, const Reference& reference, const Descriptor& layer) {
  const auto store = repository_store(client, reference.repository);
  std::string text;
  for (int attempt = 0; attempt < 2; ++attempt) {
    text.clear();
    MLC_RETURN_IF_ERROR(store->read_blob(layer, [&](Bytes bytes) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return ok();
    }));
    if (sha256(text) == layer.digest) return text;
  }
  return wrong_bytes("the policy bundle", layer.digest, sha256(text));
}

}  // namespace

bool is_policy_file(const std::string& path) {
  const auto source = container::open_file(path);
  std::array<std::byte, 1> first{};
  return source.ok() && (*source)->size() > 0 && (*source)->read(0, first).ok() && first.front() == std::byte{'{'};
}

Result<PushResult> push_policy(const PushOptions& options) {
  if (options.reference.digest) return Status(Code::Usage, "{} names a digest, a tag expected: the digest follows from the file", options.reference.text());
  if (options.shape != ShapeKind::Modelpack) return for_containers_only("--shape");
  if (options.statements.any()) return for_containers_only(options.statements.sign ? "--sign" : "--attach");
  MLC_ASSIGN(const std::string text, signing::read_small_file(options.file, signing::kMaxPolicyFile));
  MLC_ASSIGN(const Chain chain, signing::parse_policy_bundles(text, options.file));
  Client client(options.reference.host, options.client);
  const auto store = repository_store(client, options.reference.repository, options.request_bytes);
  const Manifest manifest = policy_manifest(text, chain);
  const std::vector<Descriptor> layer = {manifest.layers.front()};
  MLC_ASSIGN(const std::vector<bool> there, store->has_blobs(layer, nullptr));
  const std::vector<BlobUpload> blobs = {{layer.front(), upload_of(text)}, {*manifest.config, upload_of(std::string(kEmptyConfig))}};
  MLC_RETURN_IF_ERROR(put_missing(*store, blobs));
  const std::string written = manifest_text(manifest);
  MLC_RETURN_IF_ERROR(store->put_manifest(options.reference.tag, kManifestType, written));
  PushResult result;
  result.manifest = sha256(written);
  result.blob = layer.front().digest;
  result.version = chain.back().policy.version;
  result.bytes = text.size();
  result.bytes_sent = client.bytes_sent();
  result.layers = 1;
  result.layers_sent = there.front() ? 0 : 1;
  return result;
}

Result<PulledPolicy> pull_policy(const PullOptions& options, Client& client, const Artifact& artifact) {
  if (!options.from.empty()) return for_containers_only("--from");
  if (options.keep_host) return for_containers_only("--keep-host");
  if (!options.policy.empty()) return for_containers_only("--policy");
  std::error_code error;
  if (!options.force && std::filesystem::exists(options.output, error))
    return Status(Code::Usage, "{} exists, and {} is a policy bundle", options.output, options.reference.text()).hint("--force replaces it");
  const Descriptor& layer = artifact.blobs.front();
  if (layer.size > signing::kMaxPolicyFile)
    return Status(Code::Registry, "the policy bundle of {} has {} bytes, {} at most expected", options.reference.text(), layer.size, signing::kMaxPolicyFile);
  MLC_ASSIGN(const std::string text, fetched_layer(client, options.reference, layer));
  MLC_ASSIGN(const Chain chain, signing::parse_policy_bundles(text, options.reference.text()));
  MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(options.output));
  MLC_RETURN_IF_ERROR(out.write(std::as_bytes(std::span(text))));
  MLC_RETURN_IF_ERROR(out.commit());
  PulledPolicy result;
  result.version = chain.back().policy.version;
  result.expires = signing::format_time(chain.back().policy.expires).value_or("");
  result.bundles = chain.size();
  result.signatures = chain.back().signatures.size();
  return result;
}

}  // namespace mlc::registry
