// Which part runs which segment: the cheapest way through a chain of segments, by measured numbers. What is done with it
// is chosen by choose.h.
//
// Segments run one after the other. Neighbours on one part are a stage: what passes between them stays there; what passes between
// stages is on the host, so a stage on a device begins with uploads and ends with downloads, and a later stage may return to a
// device. Equal numbers give equal assignments: of equally cheap ones the one of fewer stages, then that of earlier parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace mlc::ensemble {

inline constexpr uint32_t kCaller = UINT32_MAX;
inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

struct SegmentCost {
  std::vector<double> ns;          // on each part; kImpossible: it does not run there
  uint64_t weights = 0, arena = 0;  // bytes
};
struct PassedValue {
  uint32_t producer = kCaller;         // segment
  std::vector<uint32_t> readers = {};  // segments; kCaller: it is a result
  uint64_t bytes = 0;
};
struct PartCost {
  bool is_processor = false;  // whose memory is the host's: nothing is copied
  double start_ns = 0;        // of a stage
  double copy_ns = 0;         // of a value, whatever its length
  double ns_per_byte = 0;
  uint64_t capacity = UINT64_MAX;  // bytes for weights and arena
};
// Rows of a request that are independent of each other (spec/container.md, `batch` of a method).
struct Rows {
  uint64_t count = 0;                 // 0: there are none, or it is not proved
  uint64_t multiple = 1, least = 1;  // what a share has to be
};
struct Problem {
  std::vector<PartCost> parts;
  std::vector<SegmentCost> segments;
  std::vector<PassedValue> values;
  Rows rows = {};
};

struct Stage {
  uint32_t first = 0, end = 0;  // segments
  uint32_t part = 0;
  double ns = 0, copies_ns = 0;  // of it, with its copies; of these alone
  bool operator==(const Stage&) const = default;
};
struct Assignment {
  std::vector<Stage> stages;  // neighbours have different parts
  double ns = 0;

  double slowest_ns() const {  // stage of it
    double most = 0;
    for (const Stage& s : stages) most = std::max(most, s.ns);
    return most;
  }
};

// Fills in what a stage costs, with its copies.
void cost_stage(const Problem& problem, Stage& stage);

// What a way to run costs: neighbours on one part are one stage. None: it does not fit, or something is impossible.
std::optional<Assignment> assignment_of(const Problem& problem, const std::vector<uint32_t>& part_of_segment);

// The cheapest of all, among parts that `may_use` allows (empty: all). None: there is none. Exact where the limits of memory leave
// few ways to trade it for time, as they do in practice; else among the cheapest of these.
std::optional<Assignment> cheapest(const Problem& problem, const std::vector<bool>& may_use = {});

// For requests that follow each other, one in each stage: stages on different parts, of which the slowest takes as little time as
// can be; of these the fewest, then the quickest. None: there are none. Of more than kMostPipelined parts the first ones count.
inline constexpr size_t kMostPipelined = 8;
std::optional<Assignment> best_pipeline(const Problem& problem);

}  // namespace mlc::ensemble
