#include <cstdio>
#include <string>

#include "loaders/cuda/cuda_devices.h"
#include "loaders/vulkan/vulkan_devices.h"
#include "runtime/cli/commands.h"
#include "runtime/probe/devices.h"

namespace mlc::cli {

int answer_probe(std::string_view api) {
  Result<std::vector<device::Info>> found = Status(Code::Usage, "no devices of '{}'", api);
  if (api == "vulkan") found = vulkan::list_devices();
  if (api == "cuda") found = cuda::list_devices();
  const std::string text = found.ok() ? probe::device_text(*found) : found.status().message + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return found.ok() ? 0 : static_cast<int>(found.status().code);
}

}  // namespace mlc::cli
