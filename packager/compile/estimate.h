// What one run of a function costs, read off its statements without compiling: operations and memory, for extents that
// stand for the free ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::compile {

// Values of the symbols of a function's inputs that estimates are made for: of a batch for the first axis of an input,
// which is one nearly everywhere, of any extent for the others (packager/ir/typical.h).
std::map<const ir::Sym*, int64_t> typical_extents(const nest::Function& function);

struct Estimate {
  // A map counts one operation per point, or two for every point of each of its folds (a multiply and an add); a block
  // counts the steps of its loops; bodies count once per branch that may be taken and once per loop.
  double operations = 0;
  double constant_bytes = 0;   // of the weights that statements read
  double activation_bytes = 0; // most of inputs, results and what lies between them, alive at once
  bool at_least = false;       // sizes or repetitions that only the run tells are in it
  std::vector<double> of_statement;  // operations of each statement of the function

  // Another function beside this one, that does not run at the same time.
  void add(const Estimate& other) {
    operations += other.operations;
    constant_bytes += other.constant_bytes;
    activation_bytes = std::max(activation_bytes, other.activation_bytes);
    at_least = at_least || other.at_least;
    of_statement.insert(of_statement.end(), other.of_statement.begin(), other.of_statement.end());
  }
};
Estimate estimate(const nest::Function& function, const std::map<const ir::Sym*, int64_t>& extents);

}  // namespace mlc::compile
