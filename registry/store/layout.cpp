#include "registry/store/layout.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/cli/json_tree.h"
#include "base/cli/report.h"
#include "packager/container/output_file.h"
#include "runtime/container/source.h"
#include "signing/files/file.h"

namespace mlc::registry {
namespace {

namespace fs = std::filesystem;
constexpr const char* kTagKey = "org.opencontainers.image.ref.name";
constexpr const char* kLayoutText = R"({"imageLayoutVersion":"1.0.0"})";

Status write_file(const std::string& path, uint64_t size, const std::function<Status(uint64_t, std::span<std::byte>)>& read) {
  MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(path));
  std::vector<std::byte> piece(1u << 20);
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), size - at)));
    MLC_RETURN_IF_ERROR(read(at, piece));
    MLC_RETURN_IF_ERROR(out.write(piece));
  }
  return out.commit();
}

class LayoutStore final : public Store {
 public:
  // `place` is where the folder appears; empty: it is there already.
  LayoutStore(std::string folder, std::string place) : folder_(std::move(folder)), place_(std::move(place)) {}
  ~LayoutStore() override {
    std::error_code error;
    if (!place_.empty()) fs::remove_all(folder_, error);
  }

  std::string name() const override { return "oci:" + (place_.empty() ? folder_ : place_); }

  Status begin() {
    std::error_code error;
    for (const char* inner : {"/blobs/sha256", "/blobs", ""}) unfinished_.emplace_back(folder_ + inner);
    if (!fs::create_directory(folder_, error) || !fs::create_directories(folder_ + "/blobs/sha256", error))
      return Status(Code::NotFound, "cannot create {}: {}", folder_, error.message());
    return write_text(folder_ + "/oci-layout", kLayoutText);
  }

  // index.json of a folder that is there.
  Status load() {
    MLC_ASSIGN(const std::string text, signing::read_small_file(folder_ + "/index.json", kMaxManifestBytes));
    MLC_ASSIGN(index_, parse_manifest(text));
    return index_.is_index ? ok() : Status(Code::Malformed, "{}/index.json is no index", folder_);
  }

  Result<FetchedManifest> manifest(const std::string& object) override {
    const auto digest = parse_digest(object);
    const auto is_meant = [&](const Descriptor& one) {
      const auto tag = one.annotations.find(kTagKey);
      return digest ? one.digest == *digest : tag != one.annotations.end() && tag->second == object;
    };
    auto found = std::find_if(index_.manifests.begin(), index_.manifests.end(), is_meant);
    if (found == index_.manifests.end() && !digest) {
      // A layout of one artifact need not name it.
      if (index_.manifests.size() != 1 || index_.manifests.front().annotations.count(kTagKey) > 0)
        return Status(Code::Registry, "{} has no {}", name(), object);
      found = index_.manifests.begin();
    }
    const Digest wanted = digest ? *digest : found->digest;
    MLC_ASSIGN(std::string text, signing::read_small_file(path_of(wanted), kMaxManifestBytes));
    if (sha256(text) != wanted) return Status(Code::BadSignature, 3102, "{} does not match its digest", path_of(wanted));
    return FetchedManifest{std::move(text), wanted, found == index_.manifests.end() ? std::string() : found->media_type};
  }

  Status read_blob(const Descriptor& blob, const std::function<Status(Bytes)>& sink) override {
    MLC_ASSIGN(const auto source, container::open_file(path_of(blob.digest)));
    if (source->size() != blob.size) return Status(Code::Registry, "{} has {} bytes, {} expected", path_of(blob.digest), source->size(), blob.size);
    std::vector<std::byte> piece(1u << 20);
    for (uint64_t at = 0; at < blob.size; at += piece.size()) {
      piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), blob.size - at)));
      MLC_RETURN_IF_ERROR(source->read(at, piece));
      MLC_RETURN_IF_ERROR(sink(piece));
    }
    return ok();
  }

  // Layouts keep the listing as registries without the interface do: under the tag.
  Result<std::vector<Descriptor>> referrers(const Digest& subject) override {
    const std::string tag = referrers_tag(subject);
    const auto is_listing = [&](const Descriptor& one) {
      const auto found = one.annotations.find(kTagKey);
      return found != one.annotations.end() && found->second == tag;
    };
    if (std::none_of(index_.manifests.begin(), index_.manifests.end(), is_listing)) return std::vector<Descriptor>{};
    MLC_ASSIGN(const FetchedManifest listing, manifest(tag));
    MLC_ASSIGN(const Manifest index, parse_manifest(listing.text));
    return index.manifests;
  }

  Result<std::vector<bool>> has_blobs(std::span<const Descriptor> blobs, const Store*) override {
    std::vector<bool> there;
    std::error_code error;
    for (const Descriptor& blob : blobs) there.push_back(fs::exists(path_of(blob.digest), error));
    return there;
  }
  Status put_blobs(std::span<const BlobUpload> uploads) override {
    for (const BlobUpload& upload : uploads) MLC_RETURN_IF_ERROR(write_file(path_of(upload.blob.digest), upload.content.size, upload.content.read));
    return ok();
  }

  Status put_manifest(const std::string& object, std::string_view media_type, std::string_view text) override {
    Descriptor entry{std::string(media_type), sha256(text), text.size(), {}, {}, {}, {}};
    MLC_RETURN_IF_ERROR(write_text(path_of(entry.digest), text));
    if (parse_digest(object)) return ok();  // one that another leads to
    if (const auto manifest = parse_manifest(text); manifest.ok()) entry.artifact_type = manifest->artifact_type;
    entry.annotations[kTagKey] = object;
    std::erase_if(index_.manifests, [&](const Descriptor& one) { return one.annotations.count(kTagKey) > 0 && one.annotations.at(kTagKey) == object; });
    index_.manifests.push_back(std::move(entry));
    return ok();
  }

  Status commit() override {
    index_.is_index = true;
    index_.media_type = kIndexType;
    MLC_RETURN_IF_ERROR(write_text(folder_ + "/index.json", manifest_text(index_)));
    std::error_code error;
    fs::rename(folder_, place_, error);  // also over an empty folder
    if (error) return Status(Code::NotFound, "cannot rename {} to {}: {}", folder_, place_, error.message());
    folder_ = std::exchange(place_, {});
    unfinished_.clear();
    return ok();
  }

 private:
  std::string path_of(const Digest& digest) const { return folder_ + "/blobs/sha256/" + to_hex(digest); }
  static Status write_text(const std::string& path, std::string_view text) {
    const Upload upload = upload_of(std::string(text));
    return write_file(path, upload.size, upload.read);
  }

  std::string folder_, place_;
  Manifest index_;
  std::vector<Unfinished> unfinished_;  // the inner folders first, since only empty ones can be removed
};

}  // namespace

Result<std::unique_ptr<Store>> create_layout(const std::string& given) {
  const std::string folder = given.size() > 1 && given.ends_with('/') ? given.substr(0, given.size() - 1) : given;
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    return Status(Code::Usage, "{} is there already, a new or an empty folder expected", folder);
  auto layout = std::make_unique<LayoutStore>(folder + ".tmp" + std::to_string(::getpid()), folder);
  MLC_RETURN_IF_ERROR(layout->begin());
  return std::unique_ptr<Store>(std::move(layout));
}

Result<std::unique_ptr<Store>> open_layout(const std::string& folder) {
  auto layout = std::make_unique<LayoutStore>(folder, std::string());
  MLC_RETURN_IF_ERROR(layout->load());
  return std::unique_ptr<Store>(std::move(layout));
}

}  // namespace mlc::registry
