#include "runtime/api/devices.h"
#include "runtime/api/run.h"
#include "runtime/api/session.h"

namespace mlc::api {

Status check_choice(const DeviceChoice&) { return ok(); }
bool names_devices(const DeviceChoice& choice) { return choice.wanted != "auto" && choice.wanted != "cpu"; }

Result<std::shared_ptr<const FoundDevices>> find_devices(const DeviceChoice&, std::span<const format::Variant>) {
  return std::shared_ptr<const FoundDevices>();
}

const PlacedStage* Session::stage(uint32_t) const { return nullptr; }

Status Session::load_for_device(Compatible, VerifiedBytes module, const SessionOptions&) {
  return Status(Code::Unsupported, "{}: this library has no loader for devices", module.name());
}

Result<bool> start_on_device(MlcSession*) { return false; }
Result<bool> wait_for_device(MlcSession*, uint64_t) { return true; }

}  // namespace mlc::api
