// A folder with a model and the files that say how texts go in and what comes out, as a pipeline (spec/pipeline.md, "Folders").
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::model_folder {

// model.onnx or onnx/model.onnx. NotFound if there is neither.
Result<std::string> model_file(const std::string& folder);

struct Description {
  std::string pipeline;                       // the text of a pipeline.json
  std::map<std::string, std::string> assets;  // what it names beside the files of the folder
};
// For the model of that folder. Usage: a file is missing or says what is not understood; the message names file and key.
Result<Description> describe(const std::string& folder, const model::Model& model);

}  // namespace mlc::model_folder
