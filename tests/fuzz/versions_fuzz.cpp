// libs: mlc_signing
// Any bytes as the file of the versions seen. Property: what parses is written as it was, and an error has a sentence.
#include <cstdlib>

#include "signing/version_marks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto marks = mlc::signing::VersionMarks::parse(text, "fuzz");
  if (!marks.ok() ? marks.status().message.empty() : marks->encode() != text) std::abort();
  return 0;
}
