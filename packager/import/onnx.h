// Reads ONNX files (protobuf) into a Model.
//
// Everything in the file is hostile: the wire bytes (protobuf's own checks, bounded nesting), names, shapes, element
// counts and external data paths. What is refused names the node or tensor. What the file is instead (a Git LFS pointer,
// a web page, a container of ours) is recognised by its first bytes and said.
#pragma once

#include <string>

#include "base/checked.h"
#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::import {

// Constants of the model borrow from memory that the model itself keeps alive. External data must lie in the folder of
// `path` or below it.
Result<model::Model> import_onnx(const std::string& path);
// The same for bytes that are in memory; `name` is for messages, external data lies in `folder`. `bytes` may go away.
Result<model::Model> import_onnx(Bytes bytes, const std::string& name, const std::string& folder);

}  // namespace mlc::import
