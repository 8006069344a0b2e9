// libs: mlc_probe_devices
// Any text: refused with a message, or devices that are written and read again as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/probe/devices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  const auto devices = probe::parse_device_text({reinterpret_cast<const char*>(data), size});
  if (!devices) {
    if (devices.status().message.empty()) std::abort();
    return 0;
  }
  const std::string text = probe::device_text(*devices);
  const auto again = probe::parse_device_text(text);
  if (!again || probe::device_text(*again) != text) std::abort();
  return 0;
}
