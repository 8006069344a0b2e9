#include "runtime/api/session/devices.h"
#include "runtime/api/session/session.h"
#include "runtime/api/table.h"
#include "runtime/api/table/run.h"

namespace mlc::api {

Status check_choice(const DeviceChoice&) { return ok(); }
bool names_devices(std::string_view wanted) { return wanted != "auto" && wanted != "cpu"; }

Result<std::vector<ProgramGroup>> group_programs(const DeviceChoice& choice, const format::Manifest&, uint32_t) {
  return std::vector<ProgramGroup>{{choice.wanted, {}}};
}

Result<FoundByGroup> find_devices(const DeviceChoice&, std::span<const ProgramGroup>, std::span<const format::Variant>) { return FoundByGroup{}; }

// There is one group.
void cut_by_code(const format::Manifest&, const MatchPolicy&, std::vector<ProgramGroup>&, FoundByGroup&) {}
void keep_group(const format::Manifest&, std::span<const uint32_t>, exec::Plan&) {}
Status has_code(const Model&, uint32_t, std::string_view) { return ok(); }
bool has_device(const Model&, uint32_t) { return false; }

Session::Profiled Session::profiled(uint32_t function, uint32_t index) const { return {*executor_, function, index, device_}; }

int Session::stage(uint32_t, MlcStage*) const { return MLC_NOT_FOUND; }
uint32_t Session::num_stages() const { return 0; }

Status Session::load_for_device(Compatible, VerifiedBytes module, const SessionOptions&) {
  return Status(Code::Unsupported, "{}: this library has no loader for devices", module.name());
}

void clear_places(MlcSession*) {}
Status settle_places(MlcSession*) { return ok(); }
Status place_tensor(MlcSession*, const MlcTensor&, uint32_t, uint32_t, exec::InputArg*, exec::OutputArg*) {
  return Status(Code::Usage, "`reserved` of a tensor is not 0: set the whole struct to zeros first");
}

namespace table {
namespace {

int no_memory_here(MlcError** error) { return fail(Status(Code::Unsupported, "this library has no memory of devices (libmlrt-gpu has)"), error); }

}  // namespace

int memory_create(MlcSession*, uint64_t, MlcMemory**, MlcError** error) { return no_memory_here(error); }
void memory_release(MlcMemory*) {}
int memory_info(const MlcMemory*, MlcMemoryInfo*) { return MLC_USAGE; }
int tensor_copy(const MlcTensor*, const MlcTensor*, MlcError** error) { return no_memory_here(error); }
int tensor_from_dlpack(MlcSession*, DLManagedTensorVersioned*, MlcTensor*, MlcMemory**, MlcError** error) { return no_memory_here(error); }
int tensor_to_dlpack(const MlcTensor*, DLManagedTensorVersioned**, MlcError** error) { return no_memory_here(error); }

}  // namespace table

Result<bool> start_on_device(MlcSession*) { return false; }
Result<bool> wait_for_device(MlcSession*, uint64_t) { return true; }

}  // namespace mlc::api
