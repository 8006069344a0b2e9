// Runs of a built file, launch by launch, for `mlpack tune`: through the library's C API, as any application runs it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "packager/cli/library.h"
#include "runtime/io/tensor.h"

namespace mlc::cli {

// A launch by its function and its number among the launches of it.
using LaunchPlace = std::pair<std::string, size_t>;

class MeasuredModel {
 public:
  // One session on `variant` with so many threads, which run the model alone, without pipelines.
  static Result<MeasuredModel> open(const std::string& path, const std::string& variant, unsigned threads);

  // Inputs of these extents: floats random, integers small ones that are valid in most tables, or 0 where the model refuses
  // those. Usage where a free extent is not among `extents`, or one of them is none. Runs once.
  Status make_inputs(const std::map<std::string, int64_t>& extents);
  // Those of another file of the same model. Runs once.
  Status take_inputs(const MeasuredModel& other);

  // Runs once; what each launch took, in nanoseconds.
  Result<std::map<LaunchPlace, uint64_t>> once();
  // Of the last run: the largest difference from the other's outputs of floats, relative to the largest value of each.
  double difference(const MeasuredModel& other) const;

 private:
  Status run();
  Result<std::vector<HostTensor>> made_up(const std::map<std::string, int64_t>& extents, bool random_integers) const;

  ModelHandle model_;
  SessionHandle session_;
  uint32_t program_ = 0;
  std::string name_;  // of the program
  std::vector<HostTensor> inputs_;
  std::vector<MlcTensor> outputs_;
  std::map<LaunchPlace, uint64_t> before_;  // ns of all runs so far
};

}  // namespace mlc::cli
