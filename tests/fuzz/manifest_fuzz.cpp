// libs: mlc_registry_texts
// Any bytes as a manifest or index of a registry. Property: what parses is written and read as the same; an error has a sentence.
#include <cstdlib>

#include "registry/texts/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::registry;
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
  if (!manifest.ok()) {
    if (manifest.status().message.empty()) std::abort();
    return 0;
  }
  const std::string written = manifest_text(*manifest);
  if (written.size() > kMaxManifestBytes) return 0;  // escapes that were not needed
  const auto again = parse_manifest(written);
  if (!again.ok() || !(*again == *manifest)) std::abort();
  return 0;
}
