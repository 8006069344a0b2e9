// libs: mlc_base
// The reader of JSON. Properties: what was read is the same after writing and reading again; what was not has a sentence
// with a place in the text; quoted text is read as itself.
#include <cstdlib>

#include "../support/json_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  constexpr JsonLimits limits{.bytes = 1 << 20, .depth = 16, .values = 100'000};
  constexpr JsonLimits wide{.bytes = 64 << 20, .depth = 16, .values = 100'000};  // written numbers may be longer
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = parse_json(text, "x", limits);
  if (!document.ok()) {
    if (!document.status().message.starts_with("x:") && size <= limits.bytes) std::abort();
  } else {
    std::string written;
    test::write_json(document->root(), written);
    const auto again = parse_json(written, "x", wide);
    if (!again.ok() || !test::same_json(document->root(), again->root())) std::abort();
  }
  const auto quoted = parse_json(json_quote(text), "x", wide);
  if (quoted.ok() && quoted->root().text() != text) std::abort();
  return 0;
}
