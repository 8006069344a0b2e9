// Model to Nest: every node of the graph is expanded by the operator library into statements of one function.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/lang/lang.h"
#include "packager/model/model.h"
#include "packager/nest/nest.h"

namespace mlc::compile {

// Operators of the model that the library does not define, all of them, with counts and the first node of each; OK if
// there are none.
Status check_operators(const lang::Library& library, const model::Model& model);

// What a free axis of an input is called: as in the file, or "<input>.<axis>" where that has no name for it.
std::string free_axis_name(const model::Port& port, size_t axis);

// Expands the graph of a model into `function`, its inputs being arrays that are there already (their shapes must fit;
// all inputs must be given). Returns the graph's outputs by name, those that are `wanted` among them. E5009 tells all inputs
// and outputs that do not fit. `scope` begins the names of the extents that are free in the model: a function may hold several
// models, and one of them several times.
Result<std::map<std::string, lang::Value>> expand_graph(ir::Context& ctx, const lang::Library& library, const model::Model& model,
                                                        nest::Function& function, const std::string& scope,
                                                        const std::map<std::string, lang::Value>& inputs, const std::vector<std::string>& wanted);

// Free axes become symbols named as in the file; nameless ones are called "<input>.<axis>". Bounds given by the user
// ("--dim batch=1..8") are in the context before: declare_sym keeps the first declaration of a name.
Result<nest::Function> expand_model(ir::Context& ctx, const lang::Library& library, const model::Model& model, std::string name);

}  // namespace mlc::compile
