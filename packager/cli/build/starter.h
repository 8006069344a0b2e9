// A pipeline to begin with, from what a model says of its inputs and outputs: `mlpack init`.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::cli {

struct Starter {
  std::string text;                  // pipeline.json; `mlpack check --pipeline` takes it as it is
  std::string what;                  // "a picture classifier"
  std::vector<std::string> assumed;  // what the model does not tell and its author knows, a line each
};

// Inputs that look like pictures (f32, f16 or u8, rank 3 or 4, 1 or 3 channels first or last) get the steps from a file to the tensor. An
// output of rank 2, if it is the only one, becomes classes; all else comes out as it is. Unsupported where an input is no picture, a
// list or a map: no pipeline takes those yet, and the help says how to run the model without one.
[[nodiscard]] Result<Starter> starter_for(const model::Model& model);

}  // namespace mlc::cli
