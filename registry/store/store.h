// Where artifacts are: a repository of a registry, or a folder in OCI's image layout. Pushing, exporting and copying are the same
// towards each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/unfinished.h"
#include "base/status.h"
#include "registry/net/client.h"
#include "registry/texts/manifest.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

inline constexpr uint64_t kRequestBytes = 64u << 20;

class Store {
 public:
  virtual ~Store() = default;
  [[nodiscard]] virtual std::string name() const = 0;

  // ---- Reading. `object`: a tag or a digest. What is given for a digest has it; blobs are the caller's to check.
  [[nodiscard]] virtual Result<FetchedManifest> manifest(const std::string& object) = 0;
  [[nodiscard]] virtual Status read_blob(const Descriptor& blob, const std::function<Status(Bytes)>& sink) = 0;
  // The manifests whose subject that digest is, from all listings that there are.
  [[nodiscard]] virtual Result<std::vector<Descriptor>> referrers(const Digest& subject) = 0;

  // A repository of a registry; none of a folder.
  struct Origin {
    std::string host, repository;
  };
  [[nodiscard]] virtual std::optional<Origin> origin() const { return std::nullopt; }

  // ---- Writing
  // Which of the blobs are there. Those that `from` has in another repository of the same registry may be there without their bytes
  // having gone through here.
  [[nodiscard]] virtual Result<std::vector<bool>> has_blobs(std::span<const Descriptor> blobs, const Store* from) = 0;
  // Several at once where that is faster; no digest twice.
  [[nodiscard]] virtual Status put_blobs(std::span<const BlobUpload> uploads) = 0;
  [[nodiscard]] virtual Status put_manifest(const std::string& object, std::string_view media_type, std::string_view text) = 0;
  // Behind the last of it: what was written appears under its name.
  [[nodiscard]] virtual Status commit() { return ok(); }
};

// `client` must outlive the result.
[[nodiscard]] std::unique_ptr<Store> repository_store(Client& client, std::string repository, uint64_t request_bytes = kRequestBytes);

// Those that are not there, each once.
[[nodiscard]] Status put_missing(Store& store, std::span<const BlobUpload> uploads);

// The tag under which registries without a listing of referrers keep it.
[[nodiscard]] std::string referrers_tag(const Digest& subject);

// The bytes of a text, to be put.
[[nodiscard]] Upload upload_of(const std::string& text);

}  // namespace mlc::registry
