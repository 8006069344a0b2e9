// The pipelines beside a model: their file, the files that it names, and what they are as functions around the model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/golden/golden.h"
#include "packager/ir/context.h"
#include "packager/lang/lang.h"
#include "packager/model/model.h"
#include "packager/model_folder/model_folder.h"
#include "packager/nest/nest.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::compile {

inline constexpr char kMainProgram[] = "main";  // the bare model, as `run` steps name it

struct PipelineFiles {
  std::vector<std::byte> text;  // as written
  pipeline::PipelineFile parsed;
  std::map<std::string, std::vector<std::byte>> assets;  // labels, character sets and compiled tokenizers, by name
  std::set<std::string> tokenizers;                      // which of them are tokenizers
};

// Needs no model. All files that cannot be read are told together, each with the step that names it.
Result<PipelineFiles> load_pipelines(const std::string& path);
// The same of a folder that holds a model and says what goes in and out of it (packager/model_folder). `programs` get those that it
// names beside the model.
Result<PipelineFiles> pipelines_of_folder(const std::string& folder, const model::Model& model, std::vector<model_folder::Program>& programs);

// The sections of array steps of all pipelines, in order, around the models of these programs. All problems of all pipelines are
// told together, each with its place in the file, as far as steps behind one that fails can be judged.
Result<std::vector<nest::Function>> expand_pipelines(ir::Context& ctx, const lang::Library& library, const std::map<std::string, const model::Model*>& programs,
                                                     const PipelineFiles& files);

// Names of the programs of models that a section of this name runs.
std::vector<std::string> programs_of_section(const PipelineFiles& files, const std::string& name);
// The inputs of golden vectors of a pipeline that takes texts, its function being `function`; none of another one.
Result<std::vector<GivenVector>> vectors_of_texts(const PipelineFiles& files, const nest::Function& function);

// The whole of a file of at most `limit` bytes.
Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t limit);

}  // namespace mlc::compile
