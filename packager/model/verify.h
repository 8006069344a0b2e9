// What holds for every Model: checked after import and after parsing.
#pragma once

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::model {

// OK, or Malformed with all that is wrong (the first few lines of it), each naming the node or value:
// - names of inputs, initializers and results are not empty, and unique within their graph; outputs are listed once
// - names of the model's inputs, outputs and free extents are what a container holds: UTF-8 without characters that control
//   a terminal or are not seen (schema/validate/validate.h)
// - a node reads what its graph, or one around it, wrote before; hence no cycles. Every output is written
// - operators and attributes have names, bodies are there and nest at most kMaxGraphDepth deep
// - extents are not negative; a tensor has an element type and exactly the bytes, or strings, that its shape wants
// Whether operators exist and their types fit is decided when the model is expanded (packager/compile/expand.h).
Status verify(const Model& model);

}  // namespace mlc::model
