// The cases of ONNX's backend test data: finding them, reading their tensors, comparing results as ONNX's own harness does.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "packager/model/model.h"
#include "packager/nest/evaluate/tensor.h"

namespace mlc::conformance {

struct Case {
  std::string name, folder;
};

// Folders below `data` that hold a model.onnx, sorted by path.
std::vector<Case> find_cases(const std::string& data);

// Relative to the expected value, and absolute.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

struct LoadedCase {
  model::Model model;
  std::vector<nest::Tensor> inputs, outputs;  // in the order of the graph's interface; a map is two of them
  bool has_maps = false;                      // among the inputs
  Tolerance tolerance;                        // the harness's own, or what the case's data.json says
};

// The operator that a case is about: the first node of its graph that computes something. "?" for files that are no model.
std::string operator_of(const Case& c);

// Code::Unsupported for strings.
Result<LoadedCase> load(const Case& c);

// How far an answer is from the expected one.
struct Difference {
  std::string text;          // what differs first; empty: nothing does
  bool same_form = true;     // element types, shapes, lengths of lists, strings agree: what differs are numbers
  int64_t elements = 0;      // how many numbers differ by more than the tolerance
  int64_t unlike_zero = 0;   // of those: neither the one nor the other is zero
  int64_t not_finite = 0;    // and: one of the two is NaN or infinite
  double largest = 0;        // absolute difference of the others

  void add(const Difference& other);  // all but the text
};

// Integers and truth values must be equal; bfloat16 has two units in the last place, as in ONNX's harness.
Difference compare(const nest::Tensor& got, const nest::Tensor& want, const Tolerance& tolerance);

}  // namespace mlc::conformance
