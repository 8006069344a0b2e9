// Model to Nest: every node of the graph is expanded by the operator library into statements of one function.
#pragma once

#include <map>
#include <optional>
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

// How a model makes a sequence of tokens: it runs over the first ones, then over the one that it chose (the greatest of the last row of its logits), until
// an end or `most` tokens.
struct Generation {
  std::string tokens, logits;          // the input i64 or i32 [1, n], the output [1, n, vocabulary]
  std::vector<int64_t> start, end;     // the first tokens, unless they are given; tokens that end it
  int64_t most = 1;                    // tokens that are made, an end among them
  using Names = std::pair<std::string, std::string>;
  std::vector<Names> carry, once;      // inputs and the outputs that they are next time; those of the first run only
  std::string again, mask, positions;  // inputs, empty if none: 0 in the first run and then 1; 1 for each token so far; the number of each token
};

// Tokens drawn by chance in place of the greatest logit (spec/pipeline.md, "generate").
struct Sampling {
  double temperature = 1;
  int64_t top_k = 0;                // 0: all
  int64_t share = 1 << 20;          // of the weight of all, in parts of 2^20
  int64_t seed = 0;
  std::optional<lang::Value> seed_value;  // an integer, in place of `seed`
};

// As expand_graph; `inputs` are those that do not change. The tokens i64 [1, n], from the first one that was made to the end.
Result<lang::Value> expand_generation(ir::Context& ctx, const lang::Library& library, const model::Model& model, nest::Function& function, const std::string& label,
                                      const std::map<std::string, lang::Value>& inputs, const Generation& generation, const std::optional<Sampling>& sampling);

// Free axes become symbols named as in the file; nameless ones are called "<input>.<axis>". Bounds given by the user
// ("--dim batch=1..8") are in the context before: declare_sym keeps the first declaration of a name.
Result<nest::Function> expand_model(ir::Context& ctx, const lang::Library& library, const model::Model& model, std::string name);

}  // namespace mlc::compile
