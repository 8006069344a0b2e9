// Says what a file is when it is not a model: users hand over LFS pointers, login pages and containers every day.
#pragma once

#include <string>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::import {

// OK unless the first bytes are those of something known that is no ONNX model.
Status refuse_foreign(const std::string& path, Bytes bytes);

}  // namespace mlc::import
