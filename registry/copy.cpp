#include "registry/copy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "registry/statements.h"
#include "registry/store/layout.h"
#include "registry/store/store.h"

namespace mlc::registry {
namespace {

constexpr std::string_view kLayoutPrefix = "oci:";

// One end of a copy.
struct Place {
  std::unique_ptr<Client> client;  // of a registry
  std::unique_ptr<Store> store;
  std::string object;              // tag or digest
};

struct LayoutName {
  std::string folder, tag;
};
LayoutName layout_name(std::string_view text) {
  text.remove_prefix(kLayoutPrefix.size());
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && is_tag(text.substr(colon + 1))) return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
  return {std::string(text), "latest"};
}

Result<Place> open_place(const std::string& text, const ClientOptions& how, bool to_write) {
  Place place;
  if (text.starts_with(kLayoutPrefix)) {
    const LayoutName name = layout_name(text);
    place.object = name.tag;
    MLC_ASSIGN(place.store, to_write ? create_layout(name.folder) : open_layout(name.folder));
    return place;
  }
  MLC_ASSIGN(const Reference reference, parse_reference(text));
  if (to_write && reference.digest) return Status(Code::Usage, "{} names a digest, a tag expected: the digest follows from what is copied", text);
  place.object = reference.object();
  place.client = std::make_unique<Client>(reference.host, how);
  place.store = repository_store(*place.client, reference.repository);
  return place;
}

struct FileRelease {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Bytes on their way: a file without a name.
class Passing {
 public:
  Status open() {
    file_.reset(std::tmpfile());
    return file_ ? ok() : Status(Code::Resource, "no temporary file can be made: {}", std::strerror(errno));
  }
  Status write(uint64_t at, Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fileno(file_.get()), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Status(Code::Resource, "a temporary file cannot be written: {}", std::strerror(errno));
      at += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return ok();
  }
  Status read(uint64_t at, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t n = ::pread(fileno(file_.get()), out.data(), out.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Status(Code::NotFound, "a temporary file cannot be read");
      at += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
    return ok();
  }

 private:
  std::unique_ptr<std::FILE, FileRelease> file_;
};

class Copier {
 public:
  Copier(Store& from, Store& to, CopyResult& result) : from_(from), to_(to), result_(result) {}

  // Everything below a manifest, the manifest, and what refers to it. Each once, whatever names it how often.
  Status copy_manifest(const FetchedManifest& fetched, int depth) {
    if (!seen_.insert(fetched.digest).second) return ok();
    if (depth > kMaxCopyDepth || seen_.size() > kMaxCopiedManifests)
      return Status(Code::Registry, "{} leads to more than {} manifests, or {} below each other", from_.name(), kMaxCopiedManifests, kMaxCopyDepth);
    MLC_ASSIGN(const Manifest manifest, parse_manifest(fetched.text));
    for (const Descriptor& child : manifest.manifests) {
      MLC_ASSIGN(const FetchedManifest inner, from_.manifest(digest_text(child.digest)));
      MLC_RETURN_IF_ERROR(copy_manifest(inner, depth + 1));
    }
    MLC_RETURN_IF_ERROR(copy_blobs(manifest));
    MLC_RETURN_IF_ERROR(to_.put_manifest(digest_text(fetched.digest), type_of(manifest, fetched), fetched.text));
    ++result_.manifests;
    return copy_referrers(fetched.digest, depth);
  }

  static std::string type_of(const Manifest& manifest, const FetchedManifest& fetched) {
    if (!manifest.media_type.empty()) return manifest.media_type;
    if (!fetched.media_type.empty()) return fetched.media_type;
    return std::string(manifest.is_index ? kIndexType : kManifestType);
  }

 private:
  Status copy_referrers(const Digest& subject, int depth) {
    MLC_ASSIGN(const std::vector<Descriptor> found, from_.referrers(subject));
    std::vector<Descriptor> copied;
    for (const Descriptor& one : found) {
      MLC_ASSIGN(const FetchedManifest referrer, from_.manifest(digest_text(one.digest)));
      MLC_ASSIGN(const Manifest manifest, parse_manifest(referrer.text));
      if (!manifest.subject || manifest.subject->digest != subject) continue;  // a listing may say what it likes
      MLC_RETURN_IF_ERROR(copy_manifest(referrer, depth + 1));
      ++result_.referrers;
      copied.push_back(one);
    }
    return copied.empty() ? ok() : list_referrers(to_, subject, std::move(copied));
  }

  // Those that are missing: as many as go at once are fetched, then sent.
  Status copy_blobs(const Manifest& manifest) {
    std::vector<Descriptor> blobs, missing;
    std::set<Digest> named;
    if (manifest.config) named.insert(manifest.config->digest), blobs.push_back(*manifest.config);
    for (const Descriptor& layer : manifest.layers)
      if (named.insert(layer.digest).second) blobs.push_back(layer);
    MLC_ASSIGN(const std::vector<bool> there, to_.has_blobs(blobs, &from_));
    for (size_t i = 0; i < blobs.size(); ++i)
      if (!there[i]) missing.push_back(blobs[i]);
    for (size_t begin = 0; begin < missing.size(); begin += kParallel)
      MLC_RETURN_IF_ERROR(copy_group(std::span(missing).subspan(begin, std::min<size_t>(kParallel, missing.size() - begin))));
    return ok();
  }

  Status copy_group(std::span<const Descriptor> blobs) {
    std::vector<Passing> passing(blobs.size());
    std::vector<BlobUpload> uploads;
    for (size_t i = 0; i < blobs.size(); ++i) {
      MLC_RETURN_IF_ERROR(fetch_blob(blobs[i], passing[i]));
      uploads.push_back({blobs[i], Upload{blobs[i].size, [&bytes = passing[i]](uint64_t offset, std::span<std::byte> out) { return bytes.read(offset, out); }}});
    }
    return to_.put_blobs(uploads);
  }

  // Wrong bytes are asked for once more.
  Status fetch_blob(const Descriptor& blob, Passing& passing) {
    MLC_RETURN_IF_ERROR(passing.open());
    Digest found{};
    for (int attempt = 0; attempt < 2; ++attempt) {
      Sha256 sha;
      uint64_t at = 0;
      MLC_RETURN_IF_ERROR(from_.read_blob(blob, [&](Bytes bytes) {
        sha.update(bytes);
        const uint64_t here = std::exchange(at, at + bytes.size());
        return passing.write(here, bytes);
      }));
      found = sha.finish();
      if (found == blob.digest) break;
    }
    if (found != blob.digest)
      return Status(Code::BadSignature, 3102, "a blob of {} does not match its digest, also when it was asked for once more", from_.name())
          .fact("expected  " + digest_text(blob.digest))
          .fact("found     " + digest_text(found));
    result_.bytes += blob.size;
    return ok();
  }

  Store& from_;
  Store& to_;
  CopyResult& result_;
  std::set<Digest> seen_;
};

}  // namespace

Result<CopyResult> copy(const CopyOptions& options) {
  MLC_ASSIGN(const Place from, open_place(options.from, options.client, /*to_write=*/false));
  MLC_ASSIGN(const FetchedManifest fetched, from.store->manifest(from.object));
  MLC_ASSIGN(const Place to, open_place(options.to, options.client, /*to_write=*/true));
  CopyResult result;
  result.digest = fetched.digest;
  result.to = to.store->name() + ":" + to.object;
  Copier copier(*from.store, *to.store, result);
  MLC_RETURN_IF_ERROR(copier.copy_manifest(fetched, 0));
  MLC_ASSIGN(const Manifest manifest, parse_manifest(fetched.text));
  MLC_RETURN_IF_ERROR(to.store->put_manifest(to.object, Copier::type_of(manifest, fetched), fetched.text));
  MLC_RETURN_IF_ERROR(to.store->commit());
  return result;
}

}  // namespace mlc::registry
