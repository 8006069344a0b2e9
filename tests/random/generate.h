// A whole graph from a seed: an input, some idioms one after the other, older values read again.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "packager/nest/evaluate/tensor.h"

namespace mlc::random_graphs {

struct Made {
  onnx::ModelProto model;
  std::vector<nest::Tensor> inputs;
  std::vector<std::string> idioms;
};

struct Choice {
  std::string only;                  // an idiom that is in every graph, if it fits somewhere; empty: any
  std::vector<std::string> without;  // idioms that are in none: what is known to fail hides the rest
};

// `free`: the same graph, with batches, heights, widths and lengths left open.
Made generate(uint64_t seed, bool free, const Choice& choice);

}  // namespace mlc::random_graphs
