// Step 1 of trust: from the bytes at hand to "some key signed exactly these bytes", or to a refusal.
#include "signing/policy.h"

namespace mlc::signing {

Result<Authentication> authenticate(std::span<const std::byte, kCoreSize> core, Bytes manifest, Bytes tail) {
  Authentication result;
  result.manifest_ = sha256(manifest);
  result.root_ = root_digest(core, result.manifest_);
  if (tail.empty()) return result;  // an unsigned file ends with its body

  MLC_ASSIGN(const SignatureBlock block, parse_block(tail));
  const auto signed_bytes = pre_authentication_encoding(block.envelope.payload);
  bool any_valid = false;
  for (const Signature& signature : block.envelope.signatures) {
    CheckedSignature checked;
    if (auto key = PublicKey::from_der(signature.key); key.ok()) {
      checked.valid = key->verify(signed_bytes, signature.value);
      checked.key = std::move(key).value();
    }
    any_valid |= checked.valid;
    result.signatures_.push_back(std::move(checked));
  }
  // The statement is read only once a key vouches for its bytes.
  if (!any_valid)
    return Status(Code::BadSignature, 3101, "no signature matches: the file or its signature was changed");
  MLC_ASSIGN(const Statement statement, parse_statement(block.envelope.payload));
  if (statement.root != result.root_)
    return Status(Code::BadSignature, 3102, "the signature belongs to other contents: header or manifest was changed")
        .fact("signed root  sha256:{}", to_hex(statement.root))
        .fact("found root   sha256:{}", to_hex(result.root_));
  if (statement.manifest != result.manifest_)
    return Status(Code::BadSignature, 3102, "the signature belongs to another manifest")
        .fact("signed   sha256:{}", to_hex(statement.manifest))
        .fact("found    sha256:{}", to_hex(result.manifest_));
  result.statement_ = statement;
  return result;
}

}  // namespace mlc::signing
