// TensorProto to model::Tensor: element types, inline data in its several spellings, external data.
#pragma once

#include <map>
#include <memory>
#include <string>

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#include <onnx/onnx_pb.h>

#include "base/status.h"
#include "packager/import/mapping.h"
#include "packager/model/model.h"

namespace mlc::import {

// What all sparse tensors of a file may take when they are written out, whatever their few values say of their number.
inline constexpr uint64_t kMaxDenseBytes = uint64_t{1} << 30;

// Where tensors of a file find their bytes.
struct TensorSource {
  std::string folder;                 // of the model file; empty: the current one
  std::shared_ptr<const void> owner;  // keeps the parsed protobuf alive that raw data is borrowed from
  mutable std::map<std::string, std::shared_ptr<Mapping>> files;  // external data, mapped once each
  mutable uint64_t dense_left = kMaxDenseBytes;                   // for sparse tensors that are still to come
};

// None for UNDEFINED. `who` is for the message: Malformed for a number that ONNX does not have, Unsupported for one that
// we do not have.
Result<DType> dtype_of(int32_t onnx_element_type, const std::string& who);
Result<model::Tensor> tensor_of(const onnx::TensorProto& proto, const TensorSource& source);
// A sparse tensor with all of its elements, which are taken from what `source` has left for such.
Result<model::Tensor> dense_of(const onnx::SparseTensorProto& proto, const TensorSource& source);

}  // namespace mlc::import
