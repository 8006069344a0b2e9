// Policies that travel: a trust policy (`trust.json`) as the payload of a DSSE envelope that its administrators have
// signed. A bundle is one line of JSON; the lines of a file are a chain, each one version above the one before
// (spec/signing.md, section 12):
//
//   {"payload":"<base 64>","payloadType":"urn:mlc:policy/v1","signatures":[{"keyid":"<64 hex digits>","sig":"<base
//   64>"}, ...]}
//
// The payload is what is signed, parsed and installed: the same bytes. It says which version it is and when it ends, so
// nothing around it can say otherwise. Reading a bundle trusts nothing: rotation.h judges it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "signing/policy.h"

namespace mlc::signing {

inline constexpr std::string_view kPolicyPayloadType = "urn:mlc:policy/v1";
inline constexpr size_t kMaxPolicyFile = 8u << 20;  // bytes of a file of bundles
inline constexpr size_t kMaxPolicyChain = 64;       // bundles of a chain

struct PolicySignature {
  Digest key;  // id of the key that is said to have made it
  std::vector<std::byte> value;
};
struct PolicyBundle {
  std::string name;   // for messages: its file, and its line where that has several
  std::string text;   // the policy: the bytes that are signed and installed
  PolicyFile policy;  // the same, parsed
  std::vector<PolicySignature> signatures;

  // Whether one of the signatures says that it is the key's, and whether that is so.
  enum class Signed : uint8_t { No, Yes, Wrong };
  [[nodiscard]] Signed by(const PublicKey& key) const;
};

// A policy that is to be signed. Usage E3302: it is none, or has no version, no end or no administrators.
[[nodiscard]] Result<PolicyBundle> unsigned_bundle(std::string text, const std::string& name);
// Adds a signature, in place of an earlier one of that key. Malformed (E3401): there are kMaxSignatures already.
[[nodiscard]] Status sign_bundle(PolicyBundle& bundle, const PrivateKey& key);

// Its line, with the line end.
[[nodiscard]] std::string encode_bundle(const PolicyBundle& bundle);
// The bundles of a file, at least one. Malformed E3401 with the place; Usage E3302 where a policy inside is none.
[[nodiscard]] Result<std::vector<PolicyBundle>> parse_policy_bundles(std::string_view text, const std::string& name);

}  // namespace mlc::signing
