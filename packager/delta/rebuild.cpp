#include "packager/delta/rebuild.h"

#include "packager/delta/patch.h"

namespace mlc::delta {
namespace {

Result<std::vector<std::byte>> bytes_of(const Part& part, const Inputs& inputs) {
  std::vector<std::byte> stored, there;
  if (part.stored > 0) {
    MLC_ASSIGN(stored, inputs.next(part.stored));
  }
  if (part.source.where != Where::None) {
    MLC_ASSIGN(there, inputs.there(part.source));
  }
  switch (part.kind) {
    case PartKind::Zeros: return std::vector<std::byte>(part.length);
    case PartKind::Copy: return there;
    case PartKind::Stored: return stored;
    case PartKind::Packed:
    case PartKind::Patch: return unpack(stored, there, part.length);
  }
  return Status(Code::Internal, "a part of no kind");
}

}  // namespace

Status rebuild(const Delta& delta, const Inputs& inputs, const std::function<Status(Bytes)>& sink) {
  Sha256 hasher;
  for (size_t k = 0; k < delta.parts.size(); ++k) {
    auto bytes = bytes_of(delta.parts[k], inputs);
    if (!bytes.ok()) return std::move(bytes).status().note("part " + std::to_string(k) + " of the delta");
    if (bytes->size() != delta.parts[k].length) return Status(Code::Malformed, "part {} of the delta: {} bytes found, {} expected", k, bytes->size(), delta.parts[k].length);
    hasher.update(*bytes);
    MLC_RETURN_IF_ERROR(sink(*bytes));
  }
  if (hasher.finish() == delta.file) return ok();
  return Status(Code::BadSignature, "the delta does not make the bytes that it is of: SHA-256 differs");
}

}  // namespace mlc::delta
