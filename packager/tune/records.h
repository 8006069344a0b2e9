// What schedules took where they were tried: the records of `mlpack tune`, which a build follows (spec/tuning.md).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace mlc::tune {

// Where something was measured.
struct Setup {
  std::string target;
  unsigned threads = 1;
  std::string compiler;  // 64 hexadecimal digits: the mlpack whose code it was; another one's may be faster or slower
  std::string extents;   // of the inputs, "batch=1,sequence=128"; empty: none is free
  std::string machine;   // for people
  bool operator==(const Setup&) const = default;
};

struct Timing {
  uint64_t least_ns = 0, median_ns = 0, samples = 0;
  std::string schedule;  // packager/schedule
  bool operator==(const Timing&) const = default;
};

struct Record {
  Setup setup;
  std::string nest;    // 64 hexadecimal digits (nest_name)
  std::string source;  // for people: the node it was met at
  std::vector<Timing> timings;  // in the order in which the compiler would take them
};

// The name of a nest, from nest::lasting_key.
std::string nest_name(std::string_view lasting_key);

class Records {
 public:
  static constexpr size_t kMostRecords = 1 << 20;
  static constexpr size_t kMostTimings = 64;  // of a record
  static constexpr size_t kMostText = 4096;   // of a line
  static constexpr size_t kMostSchedule = kMostText - 96;  // of its text: three numbers stand before it

  // Malformed, with the line, if it is anything but what `print` gives.
  static Result<Records> parse(std::string_view text);
  std::string print() const;

  // Takes the place of what was measured at the same setup for the same nest.
  void add(Record record);
  const std::vector<Record>& all() const { return records_; }

  // The schedule for a nest: the one that is never much slower than the best of its setup, which is the one whose largest loss is
  // least. The compiler's own stays where nothing is better than it by `kWorthIt`, in its least and in its median time. None:
  // nothing is known, or the compiler is right.
  std::optional<std::string> best(std::string_view target, std::string_view nest) const;

  // Those of these nests on this target.
  Records of(std::string_view target, const std::set<std::string>& nests) const;
  // Those of one compiler.
  Records of_compiler(std::string_view compiler) const;

 private:
  std::vector<Record> records_;
};

inline constexpr double kWorthIt = 0.98;  // of the time

}  // namespace mlc::tune
