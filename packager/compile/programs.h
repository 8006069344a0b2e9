// The middle of a build, for every command that builds: expanded functions are optimised together, compiled for targets, and put into
// a container. Everything is in memory; `mlpack build` adds the model file, golden vectors, pipelines and a signature.
//
//   std::vector<Program> programs;
//   programs.push_back({.function = std::move(function)});
//   WeightStore weights;
//   MLC_ASSIGN(const Optimised parts, optimise(ctx, programs, weights));
//   MLC_ASSIGN(CompiledVariant variant, compile_variant(ctx, library, parts.of(target), weights, target));
//   container::ContainerBuilder builder;
//   for (const Program& p : programs) add_program(builder, p, tolerance);
//   MLC_RETURN_IF_ERROR(weights.write(builder));
//   add_variant(builder, variant, programs, tolerance);
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "packager/compile/golden/golden.h"
#include "packager/compile/variant/variant.h"
#include "packager/compile/weights.h"
#include "packager/container/builder.h"
#include "packager/ir/context.h"
#include "packager/nest/nest.h"
#include "packager/passes/passes.h"
#include "targets/target.h"

namespace mlc::compile {

struct Program {
  nest::Function function;    // until `optimise` cuts it into parts
  GoldenSet golden;
  bool is_pipeline = false;   // a section of one
  std::vector<std::string> runs = {};  // of a section: names of the programs of models that it is made of, which stand before it
  bool is_default = false;    // the first section of the pipeline that runs by default
  format::Method method;      // its interface, set by `optimise`
};

// What is left of programs behind all passes: segments as processors run them, and as devices do, without and with tensor cores, where these are asked
// for. All have the same names, interfaces and stored weights, so that a run may have some segments from the one and some from the other.
struct Optimised {
  passes::Parts processors, devices, tensor_devices;
  const passes::Parts& of(const targets::Target& target) const { return target.has_mma ? tensor_devices : target.is_device() ? devices : processors; }
};

// Cuts the programs into parts, runs all passes on every segment, announces their constants and seals `weights`.
// `progress` counts parts. `for_devices`: programs may run on devices, and on several together, so there are cuts (passes/segments/cut.h).
Result<Optimised> optimise(ir::Context& ctx, std::vector<Program>& programs, WeightStore& weights, const passes::Options& options = {},
                               const Progress& progress = {}, bool for_devices = false);

// The interface of a program and its golden vectors; `tolerance` relative to the largest output.
void add_program(container::ContainerBuilder& builder, const Program& program, double tolerance);
// Module, plan and requirements; takes the bytes out of `compiled`. `tolerance` is for the outputs of all programs, by number.
void add_variant(container::ContainerBuilder& builder, CompiledVariant& compiled, const std::vector<Program>& programs, double tolerance);

}  // namespace mlc::compile
