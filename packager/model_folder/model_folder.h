// A folder with a model and the files that say how texts go in and what comes out, as a pipeline (spec/pipeline.md, "Folders").
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::model_folder {

// model.onnx or onnx/model.onnx. NotFound if there is neither.
Result<std::string> model_file(const std::string& folder);

// A small model that stands in the folder as numbers and not as ONNX: input x, output y.
struct Program {
  std::string name, file;  // as `run` steps name it; the file that it was read from
  model::Model model;
};

struct Description {
  std::string pipeline;                       // the text of a pipeline.json
  std::vector<Program> programs;              // that it names beside the model
  std::map<std::string, std::string> assets;  // what it names beside the files of the folder
};
// For the model of that folder. Usage: a file is missing or says what is not understood; the message names file and key.
Result<Description> describe(const std::string& folder, const model::Model& model);

}  // namespace mlc::model_folder
