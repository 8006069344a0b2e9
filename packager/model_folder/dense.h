// Private to packager/model_folder: a layer of sentence-transformers, y = activation(x W + b), as a model.
#pragma once

#include <string>

#include "base/status.h"
#include "packager/model_folder/model_folder.h"

namespace mlc::model_folder {

// `path`: its folder, which holds config.json and model.safetensors; `number`: of such layers before it. Usage: a file is missing, or
// says what is not understood.
Result<Program> dense_program(const std::string& folder, const std::string& path, size_t number);

}  // namespace mlc::model_folder
