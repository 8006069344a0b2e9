// The middle of a build, whoever began it: expanded functions are optimised together, compiled for targets, and put into
// a container. Everything is in memory; `mlpack build` adds the model file, golden vectors, pipelines and a signature.
//
//   std::vector<Program> programs = {{std::move(function)}};
//   WeightStore weights;
//   MLC_RETURN_IF_ERROR(optimise(ctx, programs, weights));
//   MLC_ASSIGN(CompiledVariant variant, compile_programs(ctx, library, programs, weights, target));
//   container::ContainerBuilder builder;
//   for (const Program& p : programs) add_program(builder, p, tolerance);
//   MLC_RETURN_IF_ERROR(weights.write(builder));
//   add_variant(builder, variant, programs.front(), tolerance);
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/golden.h"
#include "packager/compile/variant.h"
#include "packager/compile/weights.h"
#include "packager/container/builder.h"
#include "packager/ir/context.h"
#include "packager/nest/nest.h"
#include "targets/target.h"

namespace mlc::compile {

struct Program {
  nest::Function function;
  GoldenVector golden;        // no outputs: the container gets none
  bool is_pipeline = false;   // takes pictures, and is what runs by default
};

// Runs all passes on every program, announces their constants and seals `weights`; from here on `programs` must stay
// where they are. `print_after`: pass whose result goes to standard error.
Status optimise(ir::Context& ctx, std::vector<Program>& programs, WeightStore& weights, const std::string& print_after = {});

// After `optimise`.
Result<CompiledVariant> compile_programs(ir::Context& ctx, const lang::Library& library, const std::vector<Program>& programs,
                                         const WeightStore& weights, const targets::Target& target);

// The interface of a program and its golden vector; `tolerance` relative to the largest output.
void add_program(container::ContainerBuilder& builder, const Program& program, double tolerance);
// Module, plan and requirements; takes the bytes out of `compiled`. `main`: the program whose outputs `tolerance` is for.
void add_variant(container::ContainerBuilder& builder, CompiledVariant& compiled, const Program& main, double tolerance);

}  // namespace mlc::compile
