#include "packager/compile/golden/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/compose.h"
#include "packager/compile/golden/shown.h"
#include "packager/nest/copy.h"
#include "packager/passes/passes.h"

namespace mlc::compile {

namespace {

// Products are found as they are before they are rounded in a build.
Status round_factors(ir::Context& ctx, nest::Function& f, bool values) {
  passes::Options options;
  options.pipeline = {"narrow", "algebra", "permute-weights", "cleanup", "fuse", "scale-weights", values ? "products-in-bf16" : "weights-in-bf16"};
  return passes::run(ctx, f, options);
}

}  // namespace

Result<std::optional<Rounding>> measure_rounding(ir::Context& ctx, const nest::Function& oracle, GoldenSet& golden, bool values, double& work) {
  // Passes run on functions without control flow. What others lose is not known; streaming nets of speech were seen to move by 3 %.
  constexpr double kUnknown = 0.04;
  const bool is_plain = std::all_of(oracle.body.begin(), oracle.body.end(), [](const nest::Statement& s) { return !s.control; });
  for (GoldenVector& vector : golden.vectors)
    if (!is_plain) vector.rounding.assign(vector.outputs.size(), kUnknown);
  if (golden.vectors.empty() || !is_plain) return std::optional<Rounding>();
  nest::Function rounded = nest::copy_of(oracle);
  MLC_RETURN_IF_ERROR(round_factors(ctx, rounded, values));
  std::optional<Rounding> most;
  bool tells = false;
  for (GoldenVector& vector : golden.vectors) {
    nest::InterpretOptions how;
    how.work = &work;
    const auto outputs = nest::interpret(rounded, vector.inputs, how);
    if (!outputs.ok() && outputs.status().code != Code::Cancelled) return Status(outputs.status());
    for (size_t k = 0; outputs.ok() && k < vector.outputs.size(); ++k) {
      const double error = spread_of(vector.outputs[k], (*outputs)[k]);
      vector.rounding.push_back(error);
      if (is_recorded(vector.outputs[k]) && (!most || error > most->error)) most = Rounding{oracle.name, oracle.arrays[oracle.outputs[k]].name, error};
    }
    for (size_t k = 0; k < vector.outputs.size(); ++k) tells |= vector.tells(k);
  }
  if (tells || !most) return most;
  const std::string lost = std::isfinite(most->error) ? compose("is off by {} % of its largest value", std::lround(100 * most->error)) : "has another shape";
  return Status(Code::SelfTest, compose("with factors of bf16 '{}' {}, more than a golden vector can tell from an error", most->output, lost))
      .hint("--precision f32 keeps the digits that this model needs; --golden in.npz takes inputs of yours, which may need fewer; --no-golden makes the file without a test");
}

}  // namespace mlc::compile
