#include "packager/compile/variant.h"

#include <unordered_map>

#include "packager/compile/kernel_key.h"
#include "packager/lower/lower.h"
#include "packager/plan/plan_builder.h"
#include "packager/plan/verify.h"

namespace mlc::compile {

Result<CompiledVariant> compile_variant(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts,
                                        const WeightStore& weights, const targets::Target& target) {
  const lower::MathExpander expand = [&](ir::Context& c, ir::Op op, const ir::Expr* arg) { return library.expand_math(c, op, arg); };
  CompiledVariant variant;
  variant.target = &target;
  std::vector<loop::Kernel> kernels;
  std::unordered_map<std::string, uint32_t> entry_of;
  std::vector<plan::FunctionPlan> plans;
  for (const auto& segment : parts.segments) {
    const nest::Function* function = segment.get();
    plan::FunctionPlan plan;
    plan.function = function;
    plan.constant = [&weights, function](uint32_t array) { return weights.place_of(*function, array); };
    for (const nest::Statement& statement : function->body) {
      auto lowered = lower::lower(ctx, *function, statement, target, expand);
      if (!lowered.ok()) return std::move(lowered).status().note(statement.source + " for " + target.name);
      for (loop::Kernel& kernel : *lowered) {
        plan::Launch launch;
        launch.statement = static_cast<uint32_t>(&statement - function->body.data());
        launch.params = kernel.params;
        launch.scalars = kernel.scalars;
        launch.tiles = kernel.tiles;
        launch.source = statement.source;
        auto [found, is_new] = entry_of.emplace(kernel_key(kernel), kernels.size());
        launch.entry = found->second;
        if (is_new) kernels.push_back(std::move(kernel));
        plan.launches.push_back(std::move(launch));
      }
    }
    variant.num_launches += plan.launches.size();
    plans.push_back(std::move(plan));
  }
  variant.num_kernels = kernels.size();
  MLC_ASSIGN(targets::Module module, targets::emit_module(target, kernels));
  MLC_RETURN_IF_ERROR(targets::audit_module(target, module.bytes));
  variant.module = std::move(module.bytes);
  MLC_ASSIGN(variant.plan, plan::write_plan(ctx, plans, parts.programs));
  MLC_RETURN_IF_ERROR(plan::verify(variant.plan, static_cast<uint32_t>(variant.num_kernels)));
  return variant;
}

}  // namespace mlc::compile
