// Values that a model keeps between runs: pairs of an input and an output of its function (--state), which are no ports then.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "packager/compile/source/dims.h"
#include "packager/nest/nest.h"

namespace mlc::compile {

// Finds the pairs among the ports of `function`, an expanded model. Fails with Usage where a name or pattern fits nothing, an input is
// named twice, types or shapes differ, an extent is free, a value of it decides an extent, or no output is left.
Status pair_states(std::span<const StatePair> pairs, nest::Function& function);

// While this lives the function is that of the first run: its states are constants, zeros, and their inputs and outputs are no ports.
class FirstRun {
 public:
  explicit FirstRun(nest::Function& function);
  ~FirstRun();
  FirstRun(const FirstRun&) = delete;
  FirstRun& operator=(const FirstRun&) = delete;

 private:
  nest::Function& function_;
  std::vector<uint32_t> inputs_, outputs_;
};

}  // namespace mlc::compile
