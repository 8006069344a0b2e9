// Functions that a model brings along (FunctionProto): calls of them become the nodes of their bodies, under names of
// their own, as the nodes are read.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#include <onnx/onnx_pb.h>

#include "base/status.h"

namespace mlc::import {

inline constexpr int kMaxCallDepth = 64;
inline constexpr size_t kMaxInlinedNodes = size_t{1} << 20;  // short functions that call each other grow fast

class Functions {
 public:
  // Borrows from `model`. Refuses a function that is given twice.
  static Result<Functions> of(const onnx::ModelProto& model);
  // The function that the node calls; null: it is an operator.
  const onnx::FunctionProto* called_by(const onnx::NodeProto& node) const;
  // What the function says its attributes are where a call does not; null: nothing.
  const std::vector<std::unique_ptr<onnx::AttributeProto>>& defaults(const onnx::FunctionProto& function) const;

 private:
  struct Entry {
    const onnx::FunctionProto* function = nullptr;
    std::vector<std::unique_ptr<onnx::AttributeProto>> defaults;
  };
  std::map<std::string, Entry> table_;  // "domain:name:overload"
};

// Where nodes are read: the model's graph, or the body of a function at one place where it is called.
class Scope {
 public:
  Scope() = default;  // the model's graph: names and attributes are as in the file
  // `caller` must outlive this. Refuses a call that (through others) calls itself, and too many inputs or outputs.
  static Result<Scope> of_call(const Functions& functions, const onnx::FunctionProto& function, const onnx::NodeProto& call,
                               const Scope& caller, size_t serial);

  std::string name_of(const std::string& name) const;  // of a value or node, as it is called in the model
  // What stands for the attribute: itself, the caller's where it refers to one, or null: it is absent. `where` is the
  // scope that names inside of it belong to.
  const onnx::AttributeProto* resolve(const onnx::AttributeProto& attribute, const Scope*& where) const;
  // Version of a domain if a function says it, else 0.
  int64_t opset_of(const std::string& domain) const;
  // Outputs of the function that are its inputs: pairs of the model's names, from and to.
  std::vector<std::pair<std::string, std::string>> passed_through() const;

 private:
  struct Bound {
    const onnx::AttributeProto* attribute = nullptr;
    const Scope* where = nullptr;
  };
  const onnx::FunctionProto* function_ = nullptr;
  const Scope* caller_ = nullptr;
  int depth_ = 0;
  std::string prefix_;
  std::map<std::string, std::string> names_;
  std::map<std::string, Bound> attributes_;
  std::map<std::string, int64_t> opsets_;
  std::vector<std::pair<std::string, std::string>> passed_;
};

}  // namespace mlc::import
