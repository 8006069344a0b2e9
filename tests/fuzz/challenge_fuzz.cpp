// libs: mlc_registry_texts
// Any bytes as the header WWW-Authenticate. Property: what parses is written and read as the same; an error has a sentence.
#include <cstdlib>

#include "registry/texts/challenge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::registry;
  const auto challenges = parse_challenges({reinterpret_cast<const char*>(data), size});
  if (!challenges.ok()) {
    if (challenges.status().message.empty()) std::abort();
    return 0;
  }
  const std::string written = challenges_text(*challenges);
  if (written.size() > kMaxChallengeText) return 0;  // quotes that were not needed
  const auto again = parse_challenges(written);
  if (!again.ok() || challenges_text(*again) != written) std::abort();
  return 0;
}
