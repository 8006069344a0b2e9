// The files of `mlpack build --golden`: archives of arrays, as `mlrun -i` takes them.
#pragma once

#include <string>

#include "packager/compile/golden/golden.h"

namespace mlc::cli {

Result<compile::GivenVector> read_golden(const std::string& path);

}  // namespace mlc::cli
