#include "registry/push.h"

#include <algorithm>

#include "base/cli/report.h"
#include "registry/store/layout.h"
#include "registry/texts/shapes.h"
#include "registry/texts/tar.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"

namespace mlc::registry {
namespace {

Result<Digest> digest_of(const Upload& content) {
  Sha256 sha;
  std::vector<std::byte> piece(1u << 20);
  for (uint64_t at = 0; at < content.size; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), content.size - at)));
    MLC_RETURN_IF_ERROR(content.read(at, piece));
    sha.update(piece);
  }
  return sha.finish();
}

Result<std::unique_ptr<container::Container>> opened(const std::string& path) {
  container::OpenOptions how;
  how.verify = container::Verify::Lazy;
  how.allow_unsigned = true;
  how.now = 1;  // one that has expired may be kept somewhere
  MLC_ASSIGN(auto file, container::Container::open(path, how));
  MLC_RETURN_IF_ERROR(file->verify_all());
  return file;
}

// A shape, and the bytes of its layer.
struct Filled {
  Shape shape;
  Upload layer;
};

// Layers and configs of all shapes that are not there, at once.
Status put_filled(Store& store, std::span<const Filled> all, PushResult& result) {
  std::vector<BlobUpload> blobs;
  for (const Filled& one : all) {
    blobs.push_back({one.shape.manifest.layers.front(), one.layer});
    blobs.push_back({*one.shape.manifest.config, upload_of(one.shape.config)});
  }
  std::vector<Descriptor> named;
  for (const BlobUpload& blob : blobs) named.push_back(blob.blob);
  MLC_ASSIGN(const std::vector<bool> there, store.has_blobs(named, nullptr));
  std::vector<BlobUpload> missing;
  result.was_there = true;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (there[i]) continue;
    if (i % 2 == 0) result.was_there = false;  // a layer
    missing.push_back(std::move(blobs[i]));
  }
  return store.put_blobs(missing);
}

// Has nothing and keeps nothing.
class NoStore final : public Store {
 public:
  std::string name() const override { return "nowhere"; }
  Result<FetchedManifest> manifest(const std::string& object) override { return Status(Code::NotFound, "there is no {}", object); }
  Status read_blob(const Descriptor&, const std::function<Status(Bytes)>&) override { return Status(Code::NotFound, "there is no blob"); }
  Result<std::vector<Descriptor>> referrers(const Digest&) override { return std::vector<Descriptor>{}; }
  Result<std::vector<bool>> has_blobs(std::span<const Descriptor> blobs, const Store*) override { return std::vector<bool>(blobs.size()); }
  Status put_blobs(std::span<const BlobUpload>) override { return ok(); }
  Status put_manifest(const std::string&, std::string_view, std::string_view) override { return ok(); }
};

// The tag last: a reader that finds it finds all that it refers to.
Result<PushResult> write_artifact(const std::string& path, ShapeKind kind, const std::string& tag, const StatementOptions& beside, Store& store) {
  MLC_ASSIGN(const auto source, container::open_file(path));
  MLC_ASSIGN(const auto file, opened(path));
  const Upload bytes{source->size(), [&](uint64_t offset, std::span<std::byte> out) { return source->read(offset, out); }};
  const Upload tar = tar_of(bytes);
  Packed packed{file->manifest(), file->root(), {}, bytes.size, {}, tar.size};
  if (kind != ShapeKind::Image || !beside.files.empty()) {
    MLC_ASSIGN(packed.digest, digest_of(bytes));
  }
  if (kind != ShapeKind::Modelpack) {
    MLC_ASSIGN(packed.tar_digest, digest_of(tar));
  }
  MLC_RETURN_IF_ERROR(source->unchanged());
  MLC_ASSIGN(std::vector<Statement> statements, read_statements(beside, {packed.digest, packed.root}));
  PushResult result;
  result.root = packed.root;
  result.id = file->manifest().model.id;
  result.version = file->manifest().model.version;
  result.bytes = bytes.size;
  result.blob = kind == ShapeKind::Image ? packed.tar_digest : packed.digest;

  std::vector<Filled> shapes;
  if (kind != ShapeKind::Image) shapes.push_back({modelpack_shape(packed), bytes});
  if (kind != ShapeKind::Modelpack) shapes.push_back({image_shape(packed), tar});
  MLC_RETURN_IF_ERROR(put_filled(store, shapes, result));
  const std::string artifact = manifest_text(shapes.front().shape.manifest), image = manifest_text(shapes.back().shape.manifest);
  std::string last = artifact;
  if (kind == ShapeKind::Both) {
    for (const std::string& text : {artifact, image}) MLC_RETURN_IF_ERROR(store.put_manifest(digest_text(sha256(text)), kManifestType, text));
    last = manifest_text(index_of_both(packed, artifact, image));
  }
  result.manifest = sha256(last);
  const std::string type(kind == ShapeKind::Both ? kIndexType : kManifestType);
  if (beside.any()) {
    if (beside.sign) {
      MLC_ASSIGN(Statement ours, manifest_signature(beside, result.manifest));
      statements.push_back(std::move(ours));
    }
    // Registries may want a subject to be there before what refers to it.
    MLC_RETURN_IF_ERROR(store.put_manifest(digest_text(result.manifest), type, last));
    MLC_RETURN_IF_ERROR(put_statements(store, Descriptor{type, result.manifest, last.size(), {}, {}, {}, {}}, statements));
    for (Statement& one : statements) result.statements.push_back(std::move(one.predicate_type));
  }
  MLC_RETURN_IF_ERROR(store.put_manifest(tag, type, last));
  MLC_RETURN_IF_ERROR(store.commit());
  return result;
}

}  // namespace

Result<PushResult> push(const PushOptions& options) {
  if (options.reference.digest) return Status(Code::Usage, "{} names a digest, a tag expected: the digest follows from the file", options.reference.text());
  Client client(options.reference.host, options.client);
  const auto store = repository_store(client, options.reference.repository, options.request_bytes);
  MLC_ASSIGN(PushResult result, write_artifact(options.file, options.shape, options.reference.tag, options.statements, *store));
  result.bytes_sent = client.bytes_sent();
  return result;
}

Result<PushResult> export_layout(const ExportOptions& options) {
  if (!is_tag(options.tag)) return Status(Code::Usage, "--tag: '{}' is no tag, letters, digits and . _ - expected", cli::printable(options.tag));
  MLC_ASSIGN(const auto store, create_layout(options.folder));
  return write_artifact(options.file, options.shape, options.tag, {}, *store);
}

Result<PushResult> describe(const std::string& file, ShapeKind shape) {
  NoStore nowhere;
  return write_artifact(file, shape, "latest", {}, nowhere);
}

}  // namespace mlc::registry
