// The Model level: a graph as its author exported it, checked for shape but not yet for meaning. Importers produce it
// (packager/import), expansion consumes it (packager/compile/expand.h). Values are named, every name is written once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"

namespace mlc::model {

// A constant tensor. Elements are row-major, little-endian; types of less than 8 bits one per byte. `bytes` borrows from `owner`, so
// a weight of the file exists once however many nodes read it.
struct Tensor {
  DType dtype = DType::None;
  std::vector<int64_t> shape;
  Bytes bytes;
  std::shared_ptr<const void> owner;
  std::vector<std::string> strings;  // dtype Str only
};

// One axis of an interface: an extent, or the name of a free one (any text; empty: free and nameless).
using Axis = std::variant<int64_t, std::string>;

struct Port {
  std::string name;
  DType dtype = DType::None;
  std::vector<Axis> shape;
  bool has_shape = true;  // false: the file does not say, not even the rank
  // Not 0: a list (ONNX: sequence) of tensors of this element type, a list of lists (2), ... The shape is that of the
  // tensors, whose free axes may differ from one to the next. An optional is a list of at most one item.
  uint8_t list_depth = 0;
  bool optional = false;  // the outermost list is an optional; inner ones never are
  // Not None: a map from such keys (Str, I64) to `dtype`, or a list of such maps (list_depth 1). It has no shape. Maps are
  // inputs and outputs of models only.
  DType map_key = DType::None;
};

inline constexpr int kMaxGraphDepth = 64;  // of nested If and Loop bodies
inline constexpr int kMaxListDepth = 4;    // of lists in lists

struct Graph;

// A nameless Port is a type (of an Optional that is empty, say).
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, Tensor, std::shared_ptr<const Graph>, Port>;

struct Node {
  std::string name;    // may be empty; `label` never is
  std::string domain;  // "" is spelled "ai.onnx"
  std::string op;
  std::vector<std::string> inputs, outputs;  // empty string: absent
  std::map<std::string, Attribute> attributes;
  int64_t opset = 0;  // version of its domain, where that is not the model's: a node that came out of a function
  std::string label() const { return !name.empty() ? name : outputs.empty() || outputs[0].empty() ? op : outputs[0]; }
};

struct Graph {
  std::string name;
  std::vector<Port> inputs, outputs;          // without the initializers
  std::vector<Port> defaults;                 // inputs of the file that initializers give a value: constants unless asked for
  std::vector<std::string> order;             // of inputs and defaults in the file
  std::map<std::string, Tensor> initializers;
  std::vector<Node> nodes;                    // in an order in which every value is written before it is read
  std::map<std::string, Port> types;          // what the file tells of results of nodes: hints for readers, not checked
};

struct Model {
  Graph graph;
  std::map<std::string, int64_t> opsets;  // domain to version
  std::string producer;
  int64_t ir_version = 0;  // of ONNX; before 4 a file lists all initializers as inputs
  std::map<std::string, std::string> metadata;
};

}  // namespace mlc::model
