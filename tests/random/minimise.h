// Makes a graph that fails smaller, as long as it fails on the same path in the same way.
#pragma once

#include "tests/random/trial.h"

namespace mlc::random_graphs {

struct MinimiseOptions {
  const lang::Library* library = nullptr;
  conformance::Path path;  // that failed
  bool on_oracle = false;  // it failed before any path
  unsigned jobs = 1;
  double seconds_per_trial = 20, seconds = 60;
};

// What is left, and how it fails. `failure` is how the whole graph did.
Trial minimise(const MinimiseOptions& options, const Trial& whole, Report& failure);

// Operators of a graph, in order: "Conv Relu MaxPool".
std::string operators_of(const onnx::GraphProto& graph);

}  // namespace mlc::random_graphs
