// libs: mlc_rotation mlc_signing
// JSON that a stranger wrote: statement, bundle, policy, entry of the trust folder, PEM. Property: a statement that parses can
// be written, and what was written parses as the same statement.
#include <cstdlib>

#include "signing/bundle.h"
#include "signing/policy.h"
#include "signing/rotation/rotation.h"

using namespace mlc::signing;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const mlc::Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto statement = parse_statement(bytes); statement.ok()) {
    const auto written = encode_statement(*statement);
    if (!written.ok()) std::abort();
    const auto again = parse_statement(std::as_bytes(std::span(written->data(), written->size())));
    if (!again.ok() || !(*again == *statement)) std::abort();
  }
  if (const auto bundle = parse_bundle(text, "fuzz"); bundle.ok()) (void)parse_statement_head(bundle->payload, "fuzz");
  (void)parse_statement_head(text, "fuzz");
  (void)parse_policy(bytes, "fuzz");
  if (const auto chain = parse_policy_bundles(text, "fuzz"); chain.ok()) {
    std::string written;
    for (const PolicyBundle& bundle : *chain) written += encode_bundle(bundle);
    if (const auto again = parse_policy_bundles(written, "fuzz"); !again.ok() || again->size() != chain->size()) std::abort();
    if (!judge_alone(*chain, 0).ok() && judge_alone(*chain, 0).message.empty()) std::abort();
  } else if (chain.status().message.empty()) {
    std::abort();
  }
  (void)parse_trusted_key(bytes, "fuzz");
  if (const auto key = PublicKey::from_pem(text); key.ok() && !(*PublicKey::from_pem(key->pem()) == *key)) std::abort();
  if (const auto time = parse_time(text); time && format_time(*time) != text) std::abort();
  return 0;
}
