// The node tests of ONNX's backend test data: finding them, reading their tensors, comparing results as ONNX's own
// harness does (relative 1e-3, absolute 1e-7 unless the case says otherwise).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/nest/tensor.h"

namespace mlc::conformance {

struct Case {
  std::string name, folder;
};

// Folders below `data` that hold a model.onnx and a test_data_set_0, sorted by name.
std::vector<Case> find_cases(const std::string& data);

struct CaseTensor {
  std::string name;   // of the value, where the file says
  nest::Tensor tensor;
};
// Tensors input_0.pb, input_1.pb, ... (or output_) of one data set. Code::Unsupported for sequences, optionals, strings.
Result<std::vector<CaseTensor>> read_tensors(const std::string& folder, const std::string& prefix);

// Empty, or what differs.
std::string compare(const nest::Tensor& got, const nest::Tensor& want, double relative, double absolute);

}  // namespace mlc::conformance
