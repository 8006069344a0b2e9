// Damages models: attributes, shapes, element types, values and wiring, as a careless or hostile exporter would.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mlc::conformance {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // One to three changes of a node, an input or a constant. Says what was changed.
  std::string damage(onnx::ModelProto& model);

 private:
  size_t pick(size_t count) { return count ? random_() % count : 0; }
  int64_t number(int64_t old);
  float real();
  std::string word();

  onnx::GraphProto& some_graph(onnx::GraphProto& outer);  // it, or a body in it
  std::string node(onnx::NodeProto& node);
  std::string attribute(onnx::AttributeProto& attribute);
  std::string tensor(onnx::TensorProto& tensor);
  std::string port(onnx::ValueInfoProto& port);

  std::mt19937_64 random_;
};

}  // namespace mlc::conformance
