// libs: mlc_registry_texts
// Any bytes as the beginning of an image's layer. Property: what is found lies in the layer, with little behind it; an error has a sentence.
#include <cstdlib>
#include <span>

#include "registry/texts/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::registry;
  const mlc::Bytes bytes = std::as_bytes(std::span(data, size));
  for (const uint64_t layer : {uint64_t{size}, uint64_t{1} << 40, uint64_t{600}}) {
    const auto place = find_in_tar(bytes, layer);
    if (!place.ok() ? place.status().message.empty()
                    : place->offset > layer || place->size > layer - place->offset || layer - place->offset - place->size > kMaxTarTail)
      std::abort();
  }
  return 0;
}
