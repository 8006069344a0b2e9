// The table of machines (machines.tbl): what schedules and passes take a machine to cost and to hold. Results do not depend on it,
// only how they are computed: a target stands for the machines of its row, or for a common one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace mlc::targets {

struct ProcessorRow {
  std::string_view targets;  // names begin so
#define MLC_PROCESSOR_COLUMN(type, name, value, meaning) type name = value;
#define MLC_PROCESSOR(...)
#define MLC_DEVICE_COLUMN(...)
#define MLC_DEVICE(...)
#include "targets/machines.tbl"
#undef MLC_PROCESSOR_COLUMN
#undef MLC_DEVICE_COLUMN
  // Sums that are added to in turn, so that none waits for itself.
  constexpr unsigned sums_in_flight() const { return static_cast<unsigned>(fmas_per_cycle * fma_latency_cycles); }
};

struct DeviceRow {
  std::string_view targets;
#define MLC_PROCESSOR_COLUMN(...)
#define MLC_DEVICE_COLUMN(type, name, value, meaning) type name = value;
#include "targets/machines.tbl"
#undef MLC_PROCESSOR_COLUMN
#undef MLC_DEVICE_COLUMN
#undef MLC_PROCESSOR
#undef MLC_DEVICE
};

#define MLC_PROCESSOR_COLUMN(...)
#define MLC_DEVICE_COLUMN(...)

inline constexpr ProcessorRow kProcessors[] = {
#define MLC_PROCESSOR(names, ...) {.targets = names __VA_OPT__(, ) __VA_ARGS__},
#define MLC_DEVICE(...)
#include "targets/machines.tbl"
#undef MLC_PROCESSOR
#undef MLC_DEVICE
};

inline constexpr DeviceRow kDevices[] = {
#define MLC_PROCESSOR(...)
#define MLC_DEVICE(names, ...) {.targets = names __VA_OPT__(, ) __VA_ARGS__},
#include "targets/machines.tbl"
#undef MLC_PROCESSOR
#undef MLC_DEVICE
};

#undef MLC_PROCESSOR_COLUMN
#undef MLC_DEVICE_COLUMN

// The row of a target by its name. There is one for any name.
template <class Row, size_t N>
constexpr const Row& row_of(const Row (&rows)[N], std::string_view target) {
  return *std::find_if(std::begin(rows), std::end(rows) - 1, [&](const Row& row) { return target.starts_with(row.targets); });
}
constexpr const ProcessorRow& processor_of(std::string_view target) { return row_of(kProcessors, target); }
constexpr const DeviceRow& device_of(std::string_view target) { return row_of(kDevices, target); }

// Where something is decided for all targets together: a processor like most, a device like most, and what the largest device has.
inline constexpr const ProcessorRow& kAnyProcessor = kProcessors[std::size(kProcessors) - 1];
inline constexpr const DeviceRow& kAnyDevice = kDevices[std::size(kDevices) - 1];
inline constexpr unsigned kDeviceBufferAlignment = 256;  // bytes: the largest that Vulkan lets a device ask for
inline constexpr const DeviceRow& kTensorDevice = device_of("cuda");  // with tensor cores
constexpr double most_multiprocessors() {
  double most = 0;
  for (const DeviceRow& row : kDevices) most = std::max(most, row.multiprocessors);
  return most;
}

}  // namespace mlc::targets
