// What commands ask that compile a model: which file, and how it is read and optimised.
#pragma once

#include <string>
#include <vector>

#include "base/cli/command.h"
#include "packager/compile/build.h"
#include "targets/target.h"

namespace mlc::cli {

struct ModelFlags {
  std::string path;
  std::vector<std::string> dims, shapes, fed, states, operator_folders;
  std::string forms = "all", precision = "f32", derived;
};
// What decides how the model is compiled, besides the model.
void add_compile_flags(const Command& command, ModelFlags& flags);
// The same with the model; `model`: what may be given as MODEL.
void add_model_flags(const Command& command, ModelFlags& flags, const char* model);
Status apply(const ModelFlags& flags, compile::BuildOptions& options);

// All but path and operators, as JSON, and back: what a container says of how it was built.
[[nodiscard]] std::string to_text(const ModelFlags& flags);
[[nodiscard]] Result<ModelFlags> flags_of_text(std::string_view text);

// Of --target, each once; Usage names all that are unknown.
Result<std::vector<const targets::Target*>> targets_named(const std::vector<std::string>& names);
// What build and check take alike: --dim, --shape, --feed, --state.
void add_interface_flags(const Command& command, ModelFlags& flags);
Result<compile::InterfaceChoices> interface_of(const ModelFlags& flags);

}  // namespace mlc::cli
