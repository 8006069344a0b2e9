// What the segments of a program do for inputs of given shapes, as their plan says: no run is needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "runtime/ensemble/mapper.h"
#include "schema/plan/plan.h"

namespace mlc::ensemble {

struct SegmentWork {
  double operations = 0, bytes = 0;  // of all launches; bytes that are read and written
  uint64_t weights = 0, arena = 0;   // bytes
  std::vector<std::vector<int64_t>> input_shapes, output_shapes;
};
struct ProgramWork {
  std::vector<SegmentWork> segments;  // of each step
  std::vector<PassedValue> values;
};
// Of a program that calls segments only (cut_of). Unsupported where extents follow from elements, which only a run tells;
// InputMismatch if the shapes do not fit.
Result<ProgramWork> work_of(const exec::Plan& plan, const exec::Function& program, std::span<const std::vector<int64_t>> input_shapes);

}  // namespace mlc::ensemble
