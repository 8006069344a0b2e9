// libs: mlc_signing
// Signature block and record. Property: what parses is written again as the same bytes, so no byte is free.
#include <cstdlib>

#include "signing/envelope.h"

using namespace mlc::signing;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const mlc::Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  if (const auto block = parse_block(bytes); block.ok()) {
    const auto again = encode_block(*block);
    if (!again.ok() || !std::equal(again->begin(), again->end(), bytes.begin(), bytes.end())) std::abort();
  }
  if (const auto envelope = parse_envelope(bytes); envelope.ok()) {
    const auto again = encode_envelope(*envelope);
    if (!again.ok() || !std::equal(again->begin(), again->end(), bytes.begin(), bytes.end())) std::abort();
    for (const Signature& signature : envelope->signatures)
      if (const auto key = PublicKey::from_der(signature.key); key.ok())
        (void)key->verify(envelope->payload, signature.value);
  }
  return 0;
}
