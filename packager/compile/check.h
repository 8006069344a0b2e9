// What `mlpack check` finds: everything that build would refuse, without compiling.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::compile {

struct CheckOptions {
  std::string model_path;
  std::vector<std::string> operator_folders;
};

struct CheckReport {
  int64_t opset = 0;
  size_t nodes = 0;
  std::map<std::string, size_t> operators;     // "Conv": nodes
  uint64_t parameters = 0;
  std::vector<std::string> inputs, outputs;    // "x: f32[N, 3, 48, W]"
  std::string flops;                           // of one run; an expression where extents are free
  Status problem;                              // OK: it will compile
  std::string text() const;
};

// Fails only if the file is no model; what is wrong with a model is in the report.
Result<CheckReport> check(const CheckOptions& options);

}  // namespace mlc::compile
