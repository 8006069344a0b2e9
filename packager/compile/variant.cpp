#include "packager/compile/variant.h"

#include <algorithm>
#include <unordered_map>

#include "packager/compile/kernel_key.h"
#include "packager/lower/lower.h"
#include "packager/plan/plan_builder.h"
#include "packager/plan/verify.h"

namespace mlc::compile {
namespace {

struct Place {
  const nest::Function* function = nullptr;
  const nest::Statement* statement = nullptr;
};

// Kernels of all statements, each once, and the plans that launch them.
struct Lowered {
  std::vector<loop::Kernel> kernels;
  std::vector<std::vector<Place>> users;  // per kernel
  std::vector<plan::FunctionPlan> plans;
};

class VariantCompiler {
 public:
  VariantCompiler(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts, const WeightStore& weights, const targets::Target& target,
                  const Progress& progress)
      : ctx_(ctx), parts_(parts), weights_(weights), target_(target), progress_(progress),
        expand_([&library](ir::Context& c, ir::Op op, const ir::Expr* arg) { return library.expand_math(c, op, arg); }) {}

  Result<CompiledVariant> run() {
    CompiledVariant variant;
    variant.target = &target_;
    Lowered lowered;
    while (true) {
      MLC_ASSIGN(lowered, lower_all());
      std::vector<targets::LargeFrame> large;
      MLC_ASSIGN(targets::Module module, targets::emit_module(target_, lowered.kernels, &large, progress_));
      variant.module = std::move(module.bytes);
      if (large.empty()) break;
      for (const targets::LargeFrame& frame : large)
        MLC_RETURN_IF_ERROR(climb(lowered.users[frame.kernel], lowered.kernels[frame.kernel].name, frame.bytes));
    }
    MLC_RETURN_IF_ERROR(targets::audit_module(target_, variant.module));
    for (const plan::FunctionPlan& plan : lowered.plans) variant.num_launches += plan.launches.size();
    variant.num_kernels = lowered.kernels.size();
    for (const loop::Kernel& kernel : lowered.kernels) variant.schedules.push_back(kernel.schedule + "  " + kernel.name);
    MLC_ASSIGN(variant.plan, plan::write_plan(ctx_, lowered.plans, parts_.programs));
    for (const nest::Program& program : parts_.programs)
      for (const nest::Step& step : program.steps)
        if (!step.service.empty()) variant.services.insert(step.service);
    MLC_RETURN_IF_ERROR(plan::verify(variant.plan, static_cast<uint32_t>(variant.num_kernels)));
    return variant;
  }

 private:
  unsigned rung_of(const nest::Statement& statement) const {
    auto found = rungs_.find(&statement);
    return found == rungs_.end() ? 0 : found->second;
  }

  Result<Lowered> lower_all() {
    Lowered all;
    std::unordered_map<std::string, uint32_t> entry_of;
    for (const auto& segment : parts_.segments) {
      const nest::Function* function = segment.get();
      plan::FunctionPlan plan;
      plan.function = function;
      plan.constant = [this, function](uint32_t array) { return weights_.place_of(*function, array); };
      for (const nest::Statement& statement : function->body) {
        auto lowered = lower::lower(ctx_, *function, statement, target_, expand_, rung_of(statement));
        if (!lowered.ok()) return std::move(lowered).status().note(statement.source + " for " + target_.name);
        for (loop::Kernel& kernel : *lowered) {
          plan::Launch launch;
          launch.statement = static_cast<uint32_t>(&statement - function->body.data());
          launch.params = kernel.params;
          launch.scalars = kernel.scalars;
          launch.tiles = kernel.tiles;
          launch.source = statement.source;
          auto [found, is_new] = entry_of.emplace(kernel_key(kernel), all.kernels.size());
          launch.entry = found->second;
          if (is_new) {
            all.kernels.push_back(std::move(kernel));
            all.users.emplace_back();
          }
          all.users[launch.entry].push_back({function, &statement});
          plan.launches.push_back(std::move(launch));
        }
      }
      all.plans.push_back(std::move(plan));
    }
    return all;
  }

  // Finds the next lowering whose frames are small enough, for all statements that have a kernel, compiling one alone.
  Status climb(const std::vector<Place>& users, const std::string& kernel, uint64_t bytes) {
    const Place& place = users.front();
    for (unsigned rung = rung_of(*place.statement) + 1; rung < lower::kRungs; ++rung) {
      auto lowered = lower::lower(ctx_, *place.function, *place.statement, target_, expand_, rung);
      if (!lowered.ok()) continue;
      std::vector<targets::LargeFrame> large;
      auto module = targets::emit_module(target_, *lowered, &large);
      if (!module.ok()) return std::move(module).status();
      if (large.empty()) {
        for (const Place& user : users) rungs_[user.statement] = std::max(rung_of(*user.statement), rung);
        return ok();
      }
      bytes = large.front().bytes;
    }
    return Status(Code::Unsupported, place.statement->source + ": kernel " + kernel + " needs a stack frame of " + std::to_string(bytes) + " bytes for " +
                                         target_.name + ", at most " + std::to_string(targets::kMaxFrame) + " are allowed")
        .fact("write its operator as several, each of a part");
  }

  ir::Context& ctx_;
  const passes::Parts& parts_;
  const WeightStore& weights_;
  const targets::Target& target_;
  const Progress& progress_;
  lower::MathExpander expand_;
  std::unordered_map<const nest::Statement*, unsigned> rungs_;  // of those that need another than the first
};

}  // namespace

Result<CompiledVariant> compile_variant(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts,
                                        const WeightStore& weights, const targets::Target& target, const Progress& progress) {
  return VariantCompiler(ctx, library, parts, weights, target, progress).run();
}

}  // namespace mlc::compile
