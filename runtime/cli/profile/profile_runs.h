// Runs of a program, taken apart: what each launch took in each of them, and what it did.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cli/bench/bench_measure.h"
#include "runtime/cli/profile/ceilings.h"

namespace mlc::cli {

struct ProfiledLaunch {
  std::string name, function, op;     // "Conv_12 (Conv)", the function of the plan, "Conv"
  std::string device;                 // "gpu0"; empty or "cpu": the processor
  bool is_launch = false;             // else a copy
  bool of_bytes = false;
  uint32_t kernel = 0;
  uint64_t each_run = 0;              // times that it is executed in one, in the last
  uint64_t min_ns = 0, median_ns = 0; // of a run
  uint64_t waited_ns = 0;             // of a run, the median, all threads together
  uint64_t operations = 0, read = 0, written = 0;  // of one execution; MLC_NOT_KNOWN
  uint64_t tiles = 0;
  uint32_t threads = 0, num_cuts = 0;
  std::array<uint64_t, 3> units{}, chunks{};
  std::vector<MlcProfileMoments> moments;  // of the last run, of each thread

  bool is_on_processor() const { return device.empty() || device == "cpu"; }
  bool knows_work() const { return operations != MLC_NOT_KNOWN && read != MLC_NOT_KNOWN && written != MLC_NOT_KNOWN; }
  // Of a run.
  double all_operations() const { return operations == MLC_NOT_KNOWN ? 0 : static_cast<double>(operations) * static_cast<double>(each_run); }
  double all_bytes() const;
  // Part of what the processor could do in that time: 1 is its roof. Negative where it is not known, and on devices, whose ceilings are
  // not measured.
  double share_of_roof(const Ceilings& ceilings) const;
};

struct Profile {
  std::vector<ProfiledLaunch> launches;  // in the order of the plan
  std::vector<uint64_t> runs;            // ns of each, sorted
  uint64_t min_ns() const { return runs.front(); }
  uint64_t median_ns() const { return runs[runs.size() / 2]; }
};

// Runs the program for as long as the options say, at least three times. The session measures itself.
Result<Profile> profile(const OpenSession& session, const MeasureOptions& options);

// "Conv" of "Conv_12 (Conv)", "Add to MatMul" of a launch that computes several, the name itself where it tells no operator.
std::string operator_of(const std::string& name);

}  // namespace mlc::cli
