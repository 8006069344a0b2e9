#include "loaders/cuda/physical.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "loaders/cuda/results.h"
#include "runtime/device_api.h"

namespace mlc::cuda {
namespace {

constexpr int32_t kMostDevices = 64;  // a count from a driver is believed up to here

class Asker {
 public:
  Asker(const Library& call, int32_t index) : call_(call), index_(index) {}

  Result<Physical> ask() {
    MLC_RETURN_IF_ERROR(status_of(call_.DeviceGet(&out_.number, index_), "cuDeviceGet"));
    MLC_RETURN_IF_ERROR(identity());
    uint32_t major = 0, minor = 0, columns = 0;
    MLC_RETURN_IF_ERROR(attribute(kAttributeCapabilityMajor, 1000, major));
    MLC_RETURN_IF_ERROR(attribute(kAttributeCapabilityMinor, 9, minor));
    MLC_RETURN_IF_ERROR(attribute(kAttributeThreadsPerBlock, 1 << 16, out_.lanes));
    MLC_RETURN_IF_ERROR(attribute(kAttributeGridDimX, INT32_MAX, columns));
    MLC_RETURN_IF_ERROR(attribute(kAttributeGridDimY, INT32_MAX, out_.rows));
    MLC_RETURN_IF_ERROR(attribute(kAttributeSharedPerBlock, 1 << 30, out_.shared_bytes));
    MLC_RETURN_IF_ERROR(attribute(kAttributeSharedPerBlockOptin, 1 << 30, out_.shared_optin_bytes));
    if (columns < 65'535) return Status(Code::Unsupported, "grids of {} blocks along x", columns);
    out_.capability = major * 10 + minor;
    size_t bytes = 0;
    MLC_RETURN_IF_ERROR(status_of(call_.DeviceTotalMem(&bytes, out_.number), "cuDeviceTotalMem"));
    out_.info.memory_bytes = out_.limits.allocation_bytes = out_.limits.range_bytes = bytes;
    const auto tell = [&](Feature feature, int64_t number) { out_.info.facts.push_back({feature, number}); };
    tell(Feature::CudaBase, 1);
    tell(Feature::CudaCc, out_.capability);
    tell(Feature::CudaDriverApi, call_.version);
    tell(Feature::CudaMaxShared, out_.shared_bytes);
    tell(Feature::CudaMaxSharedOptin, out_.shared_optin_bytes);
    return std::move(out_);
  }

 private:
  Status identity() {
    char name[256] = {};
    MLC_RETURN_IF_ERROR(status_of(call_.DeviceGetName(name, sizeof name - 1, out_.number), "cuDeviceGetName"));
    Uuid uuid{};
    MLC_RETURN_IF_ERROR(status_of(call_.DeviceGetUuid(&uuid, out_.number), "cuDeviceGetUuid"));
    out_.info.api = "cuda";
    out_.info.identity = device::identity_of(uuid.bytes);
    out_.info.title = name;
    out_.info.driver = "CUDA " + std::to_string(call_.version / 1000) + "." + std::to_string(call_.version % 1000 / 10) +
                       (call_.has_graphs() ? ", graphs" : ", no graphs");
    return ok();
  }

  Status attribute(int32_t which, int32_t most, uint32_t& out) {
    int32_t value = 0;
    MLC_RETURN_IF_ERROR(status_of(call_.DeviceGetAttribute(&value, which, out_.number), "cuDeviceGetAttribute"));
    if (value < 0 || value > most) return Status(Code::Unsupported, "attribute {} is {}", which, value);
    out = static_cast<uint32_t>(value);
    return ok();
  }

  const Library& call_;
  const int32_t index_;
  Physical out_;
};

}  // namespace

Result<std::vector<Physical>> physical_devices(const Library& library) {
  int32_t count = 0;
  MLC_RETURN_IF_ERROR(status_of(library.DeviceGetCount(&count), "cuDeviceGetCount"));
  if (count < 0 || count > kMostDevices) return Status(Code::Unsupported, "cuDeviceGetCount: {} devices", count);
  std::vector<Physical> out;
  for (int32_t k = 0; k < count; ++k) {
    auto asked = Asker(library, k).ask();
    if (asked.ok()) out.push_back(std::move(*asked));
  }
  return out;
}

}  // namespace mlc::cuda
