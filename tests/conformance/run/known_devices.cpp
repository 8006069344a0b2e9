#include "tests/conformance/run/known_devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "loaders/cuda/cuda_devices.h"
#include "loaders/vulkan/vulkan_devices.h"
#include "runtime/probe/devices.h"

namespace mlc::conformance {
namespace {

std::string variable(const std::string& api) { return "MLC_KNOWN_DEVICES_" + api; }
constexpr uint64_t kProbeNs = 10'000'000'000;

}  // namespace

Result<std::string> learn_devices(const std::string& api) {
  unsetenv(variable(api).c_str());
  MLC_ASSIGN(const std::vector<device::Info> found, probe::ask_child(kAsksDrivers, api.c_str(), kProbeNs));
  if (found.empty()) return Status(Code::NotFound, "no device by {}", api);
  setenv(variable(api).c_str(), probe::device_text(found).c_str(), 1);
  const auto first = std::find_if(found.begin(), found.end(), [](const device::Info& d) { return !d.is_software; });  // as the runtime numbers them
  const device::Info& chosen = first == found.end() ? found.front() : *first;
  return chosen.title + ", " + chosen.driver;
}

int answer_probe(const std::string& api) {
  std::string text;
  int code = 0;
  if (const char* known = std::getenv(variable(api).c_str())) {
    text = known;
  } else {
    const auto found = api == "cuda" ? cuda::list_devices() : vulkan::list_devices();
    text = found.ok() ? probe::device_text(*found) : found.status().message + "\n";
    code = found.ok() ? 0 : static_cast<int>(found.status().code);
  }
  std::fputs(text.c_str(), stdout);
  return code;
}

}  // namespace mlc::conformance
