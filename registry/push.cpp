#include "registry/push.h"

#include <algorithm>
#include <set>

#include "base/cli/report.h"
#include "registry/leaves.h"
#include "registry/store/layout.h"
#include "registry/texts/parts.h"
#include "registry/texts/shapes.h"
#include "registry/texts/tar.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"

namespace mlc::registry {
namespace {

// `all`, where it is not null, gets the same bytes.
Result<Digest> digest_of(const Upload& content, Sha256* all = nullptr) {
  Sha256 sha;
  std::vector<std::byte> piece(1u << 20);
  for (uint64_t at = 0; at < content.size; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), content.size - at)));
    MLC_RETURN_IF_ERROR(content.read(at, piece));
    sha.update(piece);
    if (all != nullptr) all->update(piece);
  }
  return sha.finish();
}

struct Opened {
  std::unique_ptr<container::Container> file;
  uint64_t manifest_len = 0;
};

Result<Opened> opened(const std::string& path) {
  container::OpenOptions how;
  how.verify = container::Verify::Lazy;
  how.allow_unsigned = true;
  how.now = 1;  // one that has expired may be kept somewhere
  Opened out;
  MLC_ASSIGN(container::AuthenticatedFile file, container::AuthenticatedFile::open(path));
  out.manifest_len = file.manifest_len();
  MLC_ASSIGN(out.file, container::Container::open(std::move(file), how));
  MLC_RETURN_IF_ERROR(out.file->verify_all());
  return out;
}

Upload slice_of(const Upload& content, uint64_t begin, uint64_t size) {
  return Upload{size, [content, begin](uint64_t offset, std::span<std::byte> out) { return content.read(begin + offset, out); }};
}

// Segments that are large enough to begin on a page are parts of their own: their bytes are the same in each file that has them.
Status cut_into_parts(const Opened& opened, const Upload& bytes, Packed& packed) {
  MLC_ASSIGN(const format::Placement placement, placement_of(*opened.file, opened.manifest_len));
  const auto& segments = opened.file->manifest().segments;
  std::vector<SegmentPlace> places;
  for (uint32_t i = 0; i < segments.size(); ++i)
    if (opened.file->present(i) && segments[i].stored_len >= format::kPageAlign) places.push_back({placement.segments[i].offset, segments[i].stored_len});
  Sha256 all;
  uint64_t begin = 0;
  for (const uint64_t size : part_lengths(bytes.size, places)) {
    MLC_ASSIGN(const Digest digest, digest_of(slice_of(bytes, begin, size), &all));
    packed.parts.push_back({begin, size, digest});
    begin += size;
  }
  packed.digest = all.finish();
  return ok();
}

// A shape, and the bytes of its layers.
struct Filled {
  Shape shape;
  std::vector<Upload> layers;
};

// Layers and configs of all shapes that are not there, at once.
Status put_filled(Store& store, std::span<const Filled> all, PushResult& result) {
  std::vector<BlobUpload> blobs;
  std::vector<Descriptor> named;
  std::vector<bool> are_layers;
  std::set<Digest> seen;
  const auto add = [&](const Descriptor& blob, const Upload& content, bool is_layer) {
    if (!seen.insert(blob.digest).second) return;
    blobs.push_back({blob, content});
    named.push_back(blob);
    are_layers.push_back(is_layer);
  };
  for (const Filled& one : all) {
    for (size_t k = 0; k < one.layers.size(); ++k) add(one.shape.manifest.layers[k], one.layers[k], true);
    add(*one.shape.manifest.config, upload_of(one.shape.config), false);
  }
  MLC_ASSIGN(const std::vector<bool> there, store.has_blobs(named, nullptr));
  std::vector<BlobUpload> missing;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (are_layers[i]) ++result.layers;
    if (there[i]) continue;
    if (are_layers[i]) ++result.layers_sent;
    missing.push_back(std::move(blobs[i]));
  }
  return store.put_blobs(missing);
}

// What the file is packed into. `packed` gets the digests that are missing.
Result<std::vector<Filled>> filled_shapes(ShapeKind kind, const Opened& opened, const Upload& bytes, bool needs_digest, Packed& packed) {
  const Upload tar = tar_of(bytes);
  packed.tar_size = tar.size;
  std::vector<Filled> shapes;
  if (kind == ShapeKind::Parts) {
    MLC_RETURN_IF_ERROR(cut_into_parts(opened, bytes, packed));
    std::vector<Upload> layers;
    for (const PartOfFile& part : packed.parts) layers.push_back(slice_of(bytes, part.offset, part.size));
    shapes.push_back({parts_shape(packed), std::move(layers)});
    return shapes;
  }
  if (kind != ShapeKind::Image || needs_digest) {
    MLC_ASSIGN(packed.digest, digest_of(bytes));
  }
  if (kind != ShapeKind::Image) shapes.push_back({modelpack_shape(packed), {bytes}});
  if (kind == ShapeKind::Modelpack) return shapes;
  MLC_ASSIGN(packed.tar_digest, digest_of(tar));
  shapes.push_back({image_shape(packed), {tar}});
  return shapes;
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
  MLC_ASSIGN(const Opened file_and_length, opened(path));
  const container::Container& file = *file_and_length.file;
  const Upload bytes{source->size(), [&](uint64_t offset, std::span<std::byte> out) { return source->read(offset, out); }};
  Packed packed{file.manifest(), file.root(), {}, bytes.size, {}, {}, 0};
  MLC_ASSIGN(const std::vector<Filled> shapes, filled_shapes(kind, file_and_length, bytes, !beside.files.empty(), packed));
  MLC_RETURN_IF_ERROR(source->unchanged());
  MLC_ASSIGN(std::vector<Statement> statements, read_statements(beside, {packed.digest, packed.root}));
  PushResult result;
  result.root = packed.root;
  result.id = file.manifest().model.id;
  result.version = file.manifest().model.version;
  result.bytes = bytes.size;
  result.blob = kind == ShapeKind::Image ? packed.tar_digest : packed.digest;
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
