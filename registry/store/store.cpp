#include "registry/store/store.h"

#include <algorithm>
#include <set>

namespace mlc::registry {
namespace {

class RepositoryStore final : public Store {
 public:
  RepositoryStore(Client& client, std::string repository, uint64_t request_bytes)
      : client_(client), repository_(std::move(repository)), request_bytes_(request_bytes) {}

  std::string name() const override { return client_.host() + "/" + repository_; }
  Result<FetchedManifest> manifest(const std::string& object) override { return client_.manifest(repository_, object); }

  Status read_blob(const Descriptor& blob, const std::function<Status(Bytes)>& sink) override {
    int cuts = 0;
    for (uint64_t at = 0; at < blob.size;) {
      const uint64_t before = at;
      MLC_ASSIGN(const RangeAnswer answer, client_.blob_range(repository_, blob, at, blob.size - at, [&](Bytes bytes) {
        at += bytes.size();
        return sink(bytes);
      }));
      cuts = answer.is_whole ? 0 : at > before ? 1 : cuts + 1;
      if (!answer.is_range) return Status(Code::Registry, "{} ended the transfer, and gives no parts of files to go on with", client_.host());
      if (cuts == kMaxCuts) return Status(Code::Registry, "{} ends the transfer again and again: {}", client_.host(), answer.why_not_whole);
    }
    return ok();
  }

  // The listing of the interface and that under the tag: registries have one of them, and after a copy some have both.
  Result<std::vector<Descriptor>> referrers(const Digest& subject) override {
    MLC_ASSIGN(std::vector<std::string> pages, client_.listed_referrers(repository_, subject));
    MLC_ASSIGN(auto tagged, client_.manifest_if_there(repository_, referrers_tag(subject)));
    if (tagged) pages.push_back(std::move(tagged->text));
    std::vector<Descriptor> all;
    std::set<Digest> seen;
    for (const std::string& page : pages) {
      MLC_ASSIGN(const Manifest index, parse_manifest(page));
      for (const Descriptor& one : index.manifests)
        if (seen.insert(one.digest).second) all.push_back(one);
    }
    return all;
  }

  std::optional<Origin> origin() const override { return Origin{client_.host(), repository_}; }

  Result<std::vector<bool>> has_blobs(std::span<const Descriptor> blobs, const Store* from) override {
    const auto other = from ? from->origin() : std::nullopt;
    const bool may_mount = other && other->host == client_.host() && other->repository != repository_;
    return client_.has_blobs(repository_, blobs, may_mount ? other->repository : std::string());
  }
  Status put_blobs(std::span<const BlobUpload> uploads) override { return client_.put_blobs(repository_, uploads, request_bytes_); }
  Status put_manifest(const std::string& object, std::string_view media_type, std::string_view text) override {
    return client_.put_manifest(repository_, object, media_type, text);
  }

 private:
  Client& client_;
  const std::string repository_;
  const uint64_t request_bytes_;
};

}  // namespace

std::unique_ptr<Store> repository_store(Client& client, std::string repository, uint64_t request_bytes) {
  return std::make_unique<RepositoryStore>(client, std::move(repository), request_bytes);
}

Status put_missing(Store& store, std::span<const BlobUpload> uploads) {
  std::vector<Descriptor> blobs;
  std::vector<BlobUpload> once, missing;
  std::set<Digest> seen;
  for (const BlobUpload& upload : uploads) {
    if (!seen.insert(upload.blob.digest).second) continue;
    blobs.push_back(upload.blob);
    once.push_back(upload);
  }
  MLC_ASSIGN(const std::vector<bool> there, store.has_blobs(blobs, nullptr));
  for (size_t i = 0; i < once.size(); ++i)
    if (!there[i]) missing.push_back(std::move(once[i]));
  return store.put_blobs(missing);
}

std::string referrers_tag(const Digest& subject) { return "sha256-" + to_hex(subject); }

Upload upload_of(const std::string& text) {
  return Upload{text.size(), [text](uint64_t offset, std::span<std::byte> out) {
    std::copy_n(std::as_bytes(std::span(text)).begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return ok();
  }};
}

}  // namespace mlc::registry
