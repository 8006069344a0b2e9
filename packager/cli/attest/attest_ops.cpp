#include "packager/cli/attest/attest_ops.h"

#include <filesystem>
#include <optional>

#include "base/text/shell_word.h"
#include "packager/cli/attest/statements.h"
#include "packager/cli/container_file.h"
#include "signing/bundle.h"
#include "signing/files/file.h"
#include "signing/user_key.h"

namespace mlc::cli {

namespace {

std::string_view ending_of(AttestKind kind, bool bare) {
  switch (kind) {
    case AttestKind::Oms: return ".sig";
    case AttestKind::Provenance: return bare ? ".provenance.json" : ".provenance.sigstore.json";
    case AttestKind::Bill: return bare ? ".cdx.json" : ".cdx.sigstore.json";
  }
  return "";
}

std::string_view predicate_of(AttestKind kind) {
  switch (kind) {
    case AttestKind::Oms: return kOmsPredicate;
    case AttestKind::Provenance: return kProvenancePredicate;
    case AttestKind::Bill: return kBillPredicate;
  }
  return "";
}

Status check_options(const AttestOptions& options) {
  if (options.kind == AttestKind::Provenance && options.builder_id.find(':') == std::string::npos)
    return Status(Code::Usage, "provenance says what built the file: --builder-id with a URI expected").hint("--builder-id https://ci.example.org/models");
  if (options.kind != AttestKind::Provenance && !options.builder_id.empty()) return Status(Code::Usage, "--builder-id belongs to --slsa");
  if (options.bare && options.kind == AttestKind::Oms) return Status(Code::Usage, "a signature without a signature: --bare belongs to --slsa and --sbom");
  return ok();
}

// Each module that is present, by SHA-256 of its decoded bytes.
Result<std::vector<ModuleDigest>> modules_of(const container::Container& file) {
  std::vector<ModuleDigest> modules;
  for (const format::Variant& variant : file.manifest().variants) {
    if (!variant.module || !file.present(*variant.module)) continue;
    MLC_ASSIGN(const VerifiedBytes bytes, file.segment(*variant.module));
    modules.push_back({file.manifest().segments[*variant.module].name, variant.target, sha256(bytes.bytes())});
  }
  return modules;
}

Result<std::string> document_of(const AttestOptions& options, const Subject& subject, const container::Container& file) {
  if (options.kind == AttestKind::Oms) return oms_statement(subject.name, subject.file);
  Json predicate;
  if (options.kind == AttestKind::Provenance) {
    predicate = provenance_of(subject, options.builder_id);
  } else {
    MLC_ASSIGN(const std::vector<ModuleDigest> modules, modules_of(file));
    predicate = bill_of_materials(subject, modules);
  }
  if (options.bare) return predicate.print() + "\n";
  return statement_about(subject, predicate_of(options.kind), std::move(predicate));
}

Status write_to(const std::string& path, std::string_view text, bool force) {
  MLC_ASSIGN(const bool is_there, signing::file_exists(path));
  if (is_there && !force) return Status(Code::Usage, path + " exists already and is not overwritten").hint("--force, or -o with another name");
  return is_there ? signing::replace_file(path, text, 0644) : signing::create_file(path, text, 0644);
}

}  // namespace

Result<AttestResult> attest(const AttestOptions& options) {
  MLC_RETURN_IF_ERROR(check_options(options));
  AttestResult result;
  result.output = options.output.empty() ? options.file + std::string(ending_of(options.kind, options.bare)) : options.output;
  result.predicate_type = predicate_of(options.kind);
  MLC_ASSIGN(container::AuthenticatedFile sealed, container::AuthenticatedFile::open(options.file));
  MLC_ASSIGN(result.file, sealed.file_digest());
  SealedContainer one{options.file, std::move(sealed), Status(Code::Internal, options.file + ": not opened twice")};
  MLC_ASSIGN(const OpenContainer open, look_into(one));
  MLC_RETURN_IF_ERROR(open.opened->verify_all());
  result.root = open.opened->root();
  const std::string name = std::filesystem::path(options.file).filename().string();
  const Subject subject{name, result.file, result.root, open.opened->manifest()};
  MLC_ASSIGN(std::string text, document_of(options, subject, *open.opened));
  if (!options.bare) {
    MLC_ASSIGN(const signing::NamedKey key, signing::named_key(options.key_file, options.passphrase));
    MLC_ASSIGN(text, signing::sign_bundle(text, key.key));
    result.key_name = key.name, result.key_id = key.key.public_key().id_hex();
  }
  MLC_RETURN_IF_ERROR(write_to(result.output, text, options.force));
  return result;
}

}  // namespace mlc::cli
