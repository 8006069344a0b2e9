// How a launch is divided among workers: decided when shapes are bound, for the extents and the number of workers there are,
// so that nothing in a plan depends on a guess of either.
//
// A launch has `tiles` tiles and is cut along some axes of `units` quanta each into chunks of neighbouring quanta; every
// combination is a tile of its own. Any chunk from 1 to `units` covers an axis exactly once, and none changes a result: a
// sum lies within a quantum. So only time depends on what is chosen here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "schema/plan/plan.h"

namespace mlc::exec {

inline constexpr uint64_t kMaxUnits = uint64_t{1} << 53;

struct CutAxis {
  uint64_t units = 0;  // at most kMaxUnits
  double bytes = 0;    // that a tile reads for each quantum, whatever its other axes are
};

struct Work {
  uint64_t tiles = 0;  // at most INT32_MAX
  std::array<CutAxis, kMaxCuts> axes{};
  size_t num_axes = 0;
  std::optional<double> nanoseconds;  // that all of it takes one worker
};

struct Chunks {
  std::array<uint64_t, kMaxCuts> of{};  // quanta of a tile, per axis: 1 to `units`, 1 where that is 0
  uint64_t tiles = 0;                   // of which the workers take equal numbers; at most INT32_MAX
  uint32_t shares = 1;                  // workers that take part
};

// A worker that takes part does so for this long, at least: beside it, meeting costs little. A few meet for less, n of them if each
// has n times kLeastOfFew: a worker without a part would wait all the same.
inline constexpr double kLeastNanoseconds = 2000, kLeastOfFew = 150;

// Of all divisions into at most as many shares as are worth it, one whose largest share is the least. Of several within 3 %
// of that the one whose workers read the fewest bytes, then the one that cuts along the first axes.
// `tries`: of divisions that a binding may still look at, which this takes from; a launch always gets one.
Chunks choose_chunks(const Work& work, unsigned workers, int& tries);

// What it takes workers to meet behind a turn that they share.
inline constexpr double kMeetingNanoseconds = 1000;

// So many take some ten milliseconds: enough for a thousand launches along two axes and 64 workers.
inline constexpr int kTriesOfBinding = 1 << 18;

}  // namespace mlc::exec
