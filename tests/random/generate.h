// A whole graph from a seed: an input, some idioms one after the other, older values read again.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "packager/nest/tensor.h"

namespace mlc::random_graphs {

struct Made {
  onnx::ModelProto model;
  std::vector<nest::Tensor> inputs;
  std::vector<std::string> idioms;
};

// `free`: the same graph, with batches, heights, widths and lengths left open. `only`: an idiom that is in it for
// certain; empty: any.
Made generate(uint64_t seed, bool free, const std::string& only);

}  // namespace mlc::random_graphs
