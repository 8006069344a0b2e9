#include "registry/push.h"

#include <algorithm>

#include "registry/shapes.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"

namespace mlc::registry {
namespace {

Result<Digest> digest_of(const container::Source& source) {
  Sha256 sha;
  std::vector<std::byte> piece(1u << 20);
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), source.size() - at)));
    MLC_RETURN_IF_ERROR(source.read(at, piece));
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

Status put_text(Client& client, const std::string& repository, const Descriptor& blob, const std::string& text) {
  MLC_ASSIGN(const bool is_there, client.has_blob(repository, blob, Access::Push));
  if (is_there) return ok();
  return client.put_blob(repository, blob, kRequestBytes, Upload{text.size(), [&text](uint64_t offset, std::span<std::byte> out) {
    std::copy_n(std::as_bytes(std::span(text)).begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return ok();
  }});
}

}  // namespace

Result<PushResult> push(const PushOptions& options) {
  if (options.reference.digest) return Status(Code::Usage, "{} names a digest, a tag expected: the digest follows from the file", options.reference.text());
  MLC_ASSIGN(const auto source, container::open_file(options.file));
  MLC_ASSIGN(const auto file, opened(options.file));
  PushResult result;
  MLC_ASSIGN(result.blob, digest_of(*source));
  result.root = file->root();
  result.id = file->manifest().model.id;
  result.version = file->manifest().model.version;
  result.bytes = source->size();
  MLC_RETURN_IF_ERROR(source->unchanged());
  const Shape shape = modelpack_shape({file->manifest(), result.root, result.blob, result.bytes});

  Client client(options.reference.host, options.client);
  const std::string& repository = options.reference.repository;
  const Descriptor& layer = shape.manifest.layers.front();
  MLC_ASSIGN(result.was_there, client.has_blob(repository, layer, Access::Push));
  if (!result.was_there) {
    const Upload content{result.bytes, [&](uint64_t offset, std::span<std::byte> out) { return source->read(offset, out); }};
    MLC_RETURN_IF_ERROR(client.put_blob(repository, layer, options.request_bytes, content));
  }
  MLC_RETURN_IF_ERROR(put_text(client, repository, *shape.manifest.config, shape.config));
  // The tag last: whoever finds it finds all that it leads to.
  const std::string text = manifest_text(shape.manifest);
  result.manifest = sha256(text);
  MLC_RETURN_IF_ERROR(client.put_manifest(repository, options.reference.tag, kManifestType, text));
  result.bytes_sent = client.bytes_sent();
  return result;
}

}  // namespace mlc::registry
