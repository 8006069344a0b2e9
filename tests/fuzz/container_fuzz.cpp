// libs: mlc_container_reader mlc_container_writer
// Edits of a good container, mostly signed again (tests/support/containers/container_script.h).
#include <cstdint>

#include "tests/support/containers/container_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mlc::test::run_container_script(std::as_bytes(std::span(data, size)));
  return 0;
}
