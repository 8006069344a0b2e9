// How long segments take on each part: measured as far as a fifth of a second reaches, and extrapolated for the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "runtime/device.h"
#include "runtime/ensemble/measure/figures.h"

namespace mlc::ensemble {

inline constexpr double kMeasureNs = 200'000'000;  // for all parts together

// Runs a segment on a part once, and tells how long that took by whatever clock there is: with its copies, and the start. A
// failure: it does not run there.
using TimeSegment = std::function<Result<double>(uint32_t part, uint32_t segment)>;

// Fills in `ns` of the segments of a problem whose parts, values and memory are set. On each part small segments come first, as
// long as there is time: once to warm up, once that counts. What is not reached takes as long as operations and bytes take at
// the best rates seen on this part.
void measure(const ProgramWork& work, const TimeSegment& time, double budget_ns, Problem& problem);

// The start of a stage and the copies between the host and a device, with copies that are made for this.
Status measure_link(device::Device& device, PartCost& cost);
// Bytes that a device has for weights and arena.
uint64_t capacity_of(const device::Device& device);

}  // namespace mlc::ensemble
