// libs: mlc_ensemble
// Any bytes as the list of what was measured. Property: what parses is written as it was, and an error has a sentence.
#include <cstdlib>

#include "runtime/ensemble/measure/measured.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto list = mlc::ensemble::MeasuredList::parse(text);
  if (!list.ok() ? list.status().message.empty() : list->encode() != text) std::abort();
  return 0;
}
