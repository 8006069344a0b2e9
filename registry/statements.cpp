#include "registry/statements.h"

#include <algorithm>

#include "base/compose.h"
#include "base/text/shell_word.h"
#include "registry/texts/shapes.h"
#include "signing/bundle.h"
#include "signing/envelope.h"
#include "signing/files/file.h"
#include "signing/user_key.h"

namespace mlc::registry {
namespace {

constexpr std::string_view kCosignPredicate = "https://sigstore.dev/cosign/sign/v1";

// A model signature of one file names the digest of its digest.
bool is_about(const signing::StatementHead& head, const Stated& stated) {
  const std::string file = to_hex(stated.file), root = to_hex(stated.root), oms = to_hex(sha256(stated.file));
  for (const auto& subject : head.subjects)
    for (const auto& [algorithm, digits] : subject.digests)
      if ((algorithm == "sha256" && (digits == file || digits == oms)) || (algorithm == signing::kTreeId && digits == root)) return true;
  return false;
}

Result<Statement> read_statement(const std::string& path, const Stated& stated) {
  MLC_ASSIGN(std::string text, signing::read_small_file(path, signing::kMaxBundle));
  MLC_ASSIGN(const signing::Bundle bundle, signing::parse_bundle(text, path));
  MLC_ASSIGN(signing::StatementHead head, signing::parse_statement_head(bundle.payload, path));
  if (!is_about(head, stated))
    return Status(Code::BadSignature, 3102, "{} is about another file than the one that is pushed", path).fact("found     sha256:{}", to_hex(stated.file)).hint("mlpack attest, for this file");
  return Statement{std::move(text), std::move(head.predicate_type)};
}

Manifest referrer_of(const Descriptor& subject, const Statement& statement) {
  Manifest manifest;
  manifest.media_type = kManifestType;
  manifest.artifact_type = signing::kBundleType;
  manifest.config = empty_config();
  manifest.layers = {{std::string(signing::kBundleType), sha256(statement.text), statement.text.size(), {}, {}, {}, {}}};
  manifest.subject = subject;
  manifest.annotations = {{"dev.sigstore.bundle.content", "dsse-envelope"}, {"dev.sigstore.bundle.predicateType", statement.predicate_type}};
  return manifest;
}

}  // namespace

Result<std::vector<Statement>> read_statements(const StatementOptions& options, const Stated& stated) {
  std::vector<Statement> statements;
  for (const std::string& path : options.files) {
    MLC_ASSIGN(Statement one, read_statement(path, stated));
    statements.push_back(std::move(one));
  }
  return statements;
}

Result<Statement> manifest_signature(const StatementOptions& options, const Digest& manifest) {
  MLC_ASSIGN(const signing::NamedKey key, signing::named_key(options.key_file, options.passphrase));
  const std::string payload = compose("{\"_type\":\"{}\",\"subject\":[{\"digest\":{\"sha256\":\"{}\"}}],\"predicateType\":\"{}\",\"predicate\":{}}",
                                      signing::kStatementType, to_hex(manifest), kCosignPredicate, "{}");
  MLC_ASSIGN(std::string text, signing::sign_bundle(payload, key.key));
  return Statement{std::move(text), std::string(kCosignPredicate)};
}

Status put_statements(Store& store, const Descriptor& subject, std::span<const Statement> statements) {
  std::vector<Descriptor> added;
  std::vector<BlobUpload> blobs;
  for (const Statement& statement : statements) {
    const Manifest manifest = referrer_of(subject, statement);
    blobs.push_back({manifest.layers.front(), upload_of(statement.text)});
    blobs.push_back({*manifest.config, upload_of(std::string(kEmptyConfig))});
  }
  MLC_RETURN_IF_ERROR(put_missing(store, blobs));
  for (const Statement& statement : statements) {
    const Manifest manifest = referrer_of(subject, statement);
    const std::string text = manifest_text(manifest);
    MLC_RETURN_IF_ERROR(store.put_manifest(digest_text(sha256(text)), kManifestType, text));
    added.push_back({std::string(kManifestType), sha256(text), text.size(), manifest.artifact_type, manifest.annotations, {}, {}});
  }
  return added.empty() ? ok() : list_referrers(store, subject.digest, std::move(added));
}

Status list_referrers(Store& store, const Digest& subject, std::vector<Descriptor> added) {
  Manifest listing;
  listing.is_index = true;
  listing.media_type = kIndexType;
  MLC_ASSIGN(listing.manifests, store.referrers(subject));
  for (Descriptor& one : added)
    if (std::none_of(listing.manifests.begin(), listing.manifests.end(), [&](const Descriptor& other) { return other.digest == one.digest; }))
      listing.manifests.push_back(std::move(one));
  return store.put_manifest(referrers_tag(subject), kIndexType, manifest_text(listing));
}

}  // namespace mlc::registry
