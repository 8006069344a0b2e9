#include "packager/cli/keys/signing_ops.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/text/shell_word.h"
#include "packager/cli/container_file.h"
#include "packager/container/output_file.h"
#include "signing/files/file.h"
#include "signing/user_key.h"

namespace mlc::cli {

using namespace signing;

namespace {

// KEY.pem -> KEY.pub.pem
std::string public_path_of(const std::string& private_path) {
  const bool pem = private_path.ends_with(".pem");
  return (pem ? private_path.substr(0, private_path.size() - 4) : private_path) + ".pub.pem";
}

// The block that is there, or a new one over the same root.
Result<SignatureBlock> block_to_extend(const ContainerFile& file, const SignOptions& options) {
  const format::Model& model = file.opened->manifest().model;
  Statement statement;
  statement.root = file.authentication.root();
  statement.manifest = file.authentication.manifest_digest();
  statement.model_id = model.id;
  statement.model_version = model.version;
  statement.not_after = options.not_after.value_or(model.not_after);
  if (model.not_after != 0 && statement.not_after > model.not_after)
    return Status(Code::Usage, "the model itself ends on " + format_time(model.not_after).value_or("?") +
                                   ", a signature cannot last longer");
  SignatureBlock block;
  if (!file.tail.empty()) {
    MLC_ASSIGN(block, parse_block(file.tail));
    if (!options.replace) {
      if (options.not_after && file.authentication.statement()->not_after != *options.not_after)
        return Status(Code::Usage, "the signatures in " + file.path + " state another end of validity")
            .hint("--replace drops them");
      return block;  // one more key over the same statement
    }
  }
  MLC_ASSIGN(const std::string payload, encode_statement(statement));
  const Bytes bytes = std::as_bytes(std::span(payload.data(), payload.size()));
  block.envelope = Envelope{{bytes.begin(), bytes.end()}, {}};
  return block;
}

constexpr size_t kMaxSignature = 4096;

Result<PublicKey> public_key_of(const SignOptions& options) {
  if (options.key_file.empty()) return Status(Code::Usage, "a signature from elsewhere needs the public key that it is of").hint("--key KEY.pub.pem");
  return PublicKey::load(options.key_file);
}

Status attach(SignatureBlock& block, const PublicKey& key, const std::string& path) {
  MLC_ASSIGN(const std::string text, read_small_file(path, kMaxSignature));
  const Bytes value = std::as_bytes(std::span(text.data(), text.size()));
  Status status = attach_signature(block.envelope, key, {value.begin(), value.end()});
  if (status.code != Code::BadSignature) return status;
  return std::move(status).note(path).fact("expected is a signature of the file that --emit-input writes, with the same --not-after and --replace: for ECDSA in DER over "
                                           "its SHA-256 (p256), SHA-384 (p384) or SHA-512 (p521), for ed25519 over the file itself");
}

// Without --deep: everything but the weights, and the leaf tables of those.
std::vector<Status> check_small_segments(const container::Container& file) {
  std::vector<Status> problems;
  const auto& segments = file.manifest().segments;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (!file.present(i)) continue;
    if (segments[i].kind == format::SegmentKind::Weights) {
      if (auto first = file.acquire(i, 0, 1); !first.ok()) problems.push_back(std::move(first).status());
    } else if (Status status = file.check(i); !status.ok()) {
      problems.push_back(std::move(status));
    }
  }
  return problems;
}

BundleAnswer check_one(const BundleText& bundle, const BundleQuestion& question) {
  if (bundle.text.ok()) return check_bundle(bundle.path, *bundle.text, question);
  BundleAnswer answer;
  answer.path = bundle.path;
  answer.status = bundle.text.status();
  return answer;
}

Status outcome_of(const VerifyResult& result, const VerifyOptions& options) {
  const std::string& file = options.file;
  if (!result.problems.empty()) return result.problems.front();
  switch (result.verdict.trust) {
    case Trust::Trusted: {
      for (const BundleAnswer& bundle : result.bundles)
        if (!bundle.status.ok()) return bundle.status;
      return ok();
    }
    case Trust::UnknownSigner:
      // Beside keys that are named on the command line no other counts: to trust one more would change nothing.
      return Status(Code::Untrusted, 3002, file + " is " + result.verdict.reason)
          .hint(options.keys.empty() ? result.verdict.help : "--key with the public half of the key that signed it");
    case Trust::Unsigned: return Status(Code::Unsigned, 3001, file + " is not signed").hint("mlpack sign " + shell_path(file));
    case Trust::BadSignature:
    case Trust::Expired:
    case Trust::Revoked:
    case Trust::TooOld:
    case Trust::RequirementNotMet: break;
  }
  return result.verdict.status.ok() ? Status(Code::Internal, "a refused file without a reason") : result.verdict.status;
}

}  // namespace

Result<KeygenResult> keygen(const KeygenOptions& options) {
  if (options.output.empty()) {
    if (options.type != KeyType::P256)
      return Status(Code::Usage, "your own key is of type p256; name a file for other keys")
          .hint("mlpack keygen -o KEY.pem --type ed25519");
    MLC_ASSIGN(const std::string folder, config_folder());
    MLC_ASSIGN(const PrivateKey key, user_key(folder));
    const PublicKey& half = key.public_key();
    return KeygenResult{local_name(half), half.id_hex(), user_key_path(folder),
                        trust_folder(folder) + "/local-" + half.id_prefix() + ".pem"};
  }
  const std::string public_path = public_path_of(options.output);
  MLC_ASSIGN(const bool there, file_exists(public_path));
  if (there) return Status(Code::Usage, public_path + " exists already and is not overwritten");
  MLC_ASSIGN(const PrivateKey key, PrivateKey::generate(options.type));
  MLC_RETURN_IF_ERROR(key.store(options.output));
  MLC_RETURN_IF_ERROR(create_file(public_path, key.public_key().pem(), 0644));
  return KeygenResult{key.public_key().id_prefix(), key.public_key().id_hex(), options.output, public_path};
}

Result<SignResult> sign_container(const SignOptions& options) {
  const std::string output = options.output.empty() ? options.file : options.output;
  MLC_ASSIGN(const ContainerFile file, open_container_file(options.file));
  MLC_RETURN_IF_ERROR(container::may_write(output, options.force));
  MLC_RETURN_IF_ERROR(container::OutputFile::try_create(output));
  MLC_ASSIGN(SignatureBlock block, block_to_extend(file, options));
  SignResult result{file.authentication.root(), {}, {}, output, 0, 0};
  if (!options.attach.empty()) {
    MLC_ASSIGN(const PublicKey key, public_key_of(options));
    MLC_RETURN_IF_ERROR(file.opened->verify_all());
    MLC_RETURN_IF_ERROR(attach(block, key, options.attach));
    result.key_name = key.id_prefix(), result.key_id = key.id_hex();
  } else {
    MLC_ASSIGN(const NamedKey key, named_key(options.key_file, options.passphrase));
    MLC_RETURN_IF_ERROR(file.opened->verify_all());
    MLC_RETURN_IF_ERROR(add_signature(block.envelope, key.key));
    result.key_name = key.name, result.key_id = key.key.public_key().id_hex();
  }
  MLC_ASSIGN(const std::vector<std::byte> bytes, encode_block(block));
  MLC_RETURN_IF_ERROR(write_with_block(file, bytes, output));
  MLC_ASSIGN(const Statement statement, parse_statement(block.envelope.payload));
  result.num_signatures = block.envelope.signatures.size();
  result.not_after = statement.not_after;
  return result;
}

Result<SignResult> write_signing_input(const SignOptions& options, const std::string& to) {
  MLC_ASSIGN(const ContainerFile file, open_container_file(options.file));
  MLC_ASSIGN(const SignatureBlock block, block_to_extend(file, options));
  MLC_RETURN_IF_ERROR(file.opened->verify_all());
  MLC_ASSIGN(const Statement statement, parse_statement(block.envelope.payload));
  const std::vector<std::byte> bytes = pre_authentication_encoding(block.envelope.payload);
  MLC_RETURN_IF_ERROR(create_file(to, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0644));
  return SignResult{file.authentication.root(), {}, {}, to, block.envelope.signatures.size(), statement.not_after};
}

Result<TrustSet> trust_for(const VerifyOptions& options) {
  if (!options.keys.empty()) return TrustSet::load({.key_files = options.keys, .policy_file = options.policy, .system_policy = ""});
  TrustSources sources = default_trust_sources();
  if (!options.policy.empty()) sources.policy_file = options.policy;
  return TrustSet::load(sources);
}

Result<VerifyResult> verify_container(SealedContainer& sealed, const TrustSet& trust, const VerifyOptions& options, const std::vector<BundleText>& bundles) {
  if (!sealed.file.ok()) return std::move(sealed.file).status();
  Digest file_digest{};
  if (!bundles.empty()) {
    MLC_ASSIGN(file_digest, sealed.file->file_digest());
  }
  // Modules are hashed, never run, so also those of a file that may only run its portable form.
  container::OpenOptions open_options = options_to_look(sealed);
  open_options.trust = &trust;
  const std::optional<Authentication> authentication = sealed.file->authentication();
  MLC_ASSIGN(const auto file, container::Container::open(std::move(*sealed.file), open_options));
  VerifyResult result;
  result.root = file->root();
  result.model_id = file->manifest().model.id;
  result.model_version = file->manifest().model.version;
  if (authentication) result.not_after = end_of_validity(*authentication, file->manifest());
  result.verdict = file->verdict();
  result.problems = options.deep ? file->verify_report() : check_small_segments(*file);
  if (!options.expect_root.empty() && digest_named(options.expect_root) != result.root)
    result.problems.push_back(Status(Code::BadSignature, 3102, options.file + " has another root than expected")
                                  .fact("expected  " + options.expect_root)
                                  .fact("found     sha256:" + to_hex(result.root)));
  if (!options.expect_id.empty() && options.expect_id != result.model_id)
    result.problems.push_back(Status(Code::BadSignature, 3102, options.file + " is another model than expected")
                                  .fact("expected  " + options.expect_id)
                                  .fact("found     " + result.model_id));
  if (authentication && !bundles.empty()) {
    const BundleQuestion question{std::filesystem::path(options.file).filename().string(), file_digest, result.root, result.model_id, *authentication, trust,
                                  static_cast<uint64_t>(std::time(nullptr))};
    for (const BundleText& bundle : bundles) result.bundles.push_back(check_one(bundle, question));
  }
  result.outcome = outcome_of(result, options);
  return result;
}

uint64_t end_of_validity(const Authentication& authentication, const format::Manifest& manifest) {
  const uint64_t stated = authentication.is_signed() ? authentication.statement()->not_after : 0;
  return stated != 0 ? stated : manifest.model.not_after;
}

std::string validity_text(uint64_t not_after) {
  const bool passed = not_after < static_cast<uint64_t>(std::time(nullptr));
  return "until " + format_time(not_after).value_or("the far future") + (passed ? ", which has passed" : "");
}

}  // namespace mlc::cli
