// libs: mlc_registry_texts
// Any bytes as the name of an artifact. Property: what parses is written and read as the same; an error has a sentence.
#include <cstdlib>

#include "registry/texts/reference.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto reference = mlc::registry::parse_reference({reinterpret_cast<const char*>(data), size});
  if (!reference.ok()) {
    if (reference.status().message.empty()) std::abort();
    return 0;
  }
  const auto again = mlc::registry::parse_reference(reference->text());
  if (!again.ok() || !(*again == *reference)) std::abort();
  (void)mlc::registry::is_loopback(reference->host);
  return 0;
}
