// Which part runs which segment: the cheapest way through a chain of segments, by numbers that somebody measured.
//
// Segments run one after the other. Neighbours on one part are a stage: what passes between them stays there; what passes between
// stages lies on the host, so a stage on a device begins with uploads and ends with downloads, and a later stage may return to a
// device. Equal numbers give equal assignments: of equally cheap ones the one of fewer stages, then that of earlier parts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
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
struct Problem {
  std::vector<PartCost> parts;
  std::vector<SegmentCost> segments;
  std::vector<PassedValue> values;
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
};

// What a way to run costs: neighbours on one part are one stage. None: it does not fit, or something is impossible.
std::optional<Assignment> assignment_of(const Problem& problem, const std::vector<uint32_t>& part_of_segment);

// The cheapest of all, among parts that `may_use` allows (empty: all). None: there is none. Exact where the limits of memory leave
// few ways to trade it for time, as they do in practice; else among the cheapest of these.
std::optional<Assignment> cheapest(const Problem& problem, const std::vector<bool>& may_use = {});

enum class Objective : uint8_t { Latency, Memory };

struct Choice {
  Assignment assignment;
  std::string why;
};
// Latency: the cheapest, but one part alone where several gain less than a tenth. Memory: on as few parts as hold it, devices
// before the processor. None: nothing fits.
std::optional<Choice> choose(const Problem& problem, Objective objective);

}  // namespace mlc::ensemble
