// What a build is made of: a model, a folder with one, or a pipeline that names several.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/source/dims.h"
#include "packager/compile/source/pipelines.h"
#include "packager/ir/context.h"
#include "packager/model/model.h"
#include "signing/hash_tree.h"

namespace mlc::compile {

struct SourceModel {
  std::string program;  // its name in the container
  std::string file;     // ONNX
  model::Model model;
};

struct Sources {
  std::string file;                 // the model, the one in the folder, or the pipeline
  std::vector<SourceModel> models;  // in the order of their names; one that no pipeline names is "main", and layers of its folder are behind it
  bool are_named = false;           // by the pipeline
  PipelineFiles pipelines;          // empty without

  // By the names of their programs. Valid as long as this.
  std::map<std::string, const model::Model*> programs() const;
  // SHA-256 of the file; where there are several models, that of its digest and theirs, one behind the other.
  Result<Digest> digest() const;
};

// `path`: an ONNX file, a folder with one, or a pipeline.json with "programs". `pipeline_path`: of a pipeline beside a model; empty:
// none, or that of the folder. The pipeline and the files that it names are read before any model; `models_begin`, which may be
// empty, is called between the two.
Result<Sources> load_sources(const std::string& path, const std::string& pipeline_path, const std::function<void()>& models_begin = {});

// What the user, or the pipeline, says of the interfaces of the models.
Status apply(ir::Context& ctx, const InterfaceChoices& choices, Sources& sources);

}  // namespace mlc::compile
