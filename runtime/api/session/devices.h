// What this library does with devices beside the processor. There are two of it: libmlrt-gpu has devices.cpp, libmlrt has
// no_devices.cpp, and nothing else differs. Session::load_for_device is in these files, too.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/match/matcher.h"
#include "schema/format.h"

namespace mlc::api {

// Which devices sessions may use.
struct DeviceChoice {
  std::string wanted = "auto";  // auto: what is not software; cpu: none; gpu: all; or names, "gpu0,cpu"
  std::string probe_program;    // asks drivers in a process of its own; empty: no device is known
  std::string state_folder;     // where it is remembered what was measured of them; empty: nowhere
};
// Usage if `wanted` is none of these.
Status check_choice(const DeviceChoice& choice);
// True: the caller named devices, so that it is to be told where none is used.
bool names_devices(const DeviceChoice& choice);

struct FoundDevices {
  std::vector<NamedDevice> usable;  // best first
  std::vector<NamedDevice> all;
  std::string why_no_cuda, why_no_vulkan;  // more of them
  bool with_processor = false;      // which may work together with them
  std::string state_folder;         // of the choice
};
// Asks for devices of the modules that the variants have. Usage if `wanted` names one that is not there. Null: this library
// has no loader for any.
Result<std::shared_ptr<const FoundDevices>> find_devices(const DeviceChoice& choice, std::span<const format::Variant> variants);

// What sessions of a model share on devices. Its content is that of devices.cpp.
struct SharedOnDevices {
  std::mutex mu;
  std::shared_ptr<void> what;  // guarded by mu
};

}  // namespace mlc::api
