// TensorProto to model::Tensor: element types, inline data in its several spellings, external data.
#pragma once

#include <memory>
#include <optional>
#include <string>

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#include <onnx/onnx_pb.h>

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::import {

// Where tensors of a file find their bytes.
struct TensorSource {
  std::string folder;                 // of the model file; empty: the current one
  std::shared_ptr<const void> owner;  // keeps the parsed protobuf alive that raw data is borrowed from
};

std::optional<DType> dtype_of(int32_t onnx_element_type);  // also None for UNDEFINED
Result<model::Tensor> tensor_of(const onnx::TensorProto& proto, const TensorSource& source);

}  // namespace mlc::import
