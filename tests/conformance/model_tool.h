// A whole model through expansion, to see what an operator text makes of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "packager/lang/lang.h"

namespace mlc::conformance {

struct ModelOptions {
  std::string model;
  std::map<std::string, int64_t> dims;  // free extents that are to be fixed
  bool print = false, check = false, shapes = false;
};

// The exit code.
int run_model(const lang::Library& library, const ModelOptions& options);

}  // namespace mlc::conformance
