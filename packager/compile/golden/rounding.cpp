#include "packager/compile/golden/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/compose.h"
#include "packager/compile/golden/shown.h"
#include "packager/ir/numeric.h"
#include "packager/nest/copy.h"
#include "packager/passes/passes.h"

namespace mlc::compile {

namespace {

// Products are found as in a build, by all passes up to the one that rounds, which for tf32 is the last of devices.
Status round_factors(ir::Context& ctx, nest::Function& f, passes::Precision precision, passes::RoundedValues values) {
  passes::Options options;
  const std::vector<std::string> rounding = passes::rounding_passes(precision, values);
  std::vector<std::string>& pipeline = options.pipeline = passes::with_precision(options.pipeline, precision, values);
  pipeline.erase(std::find(pipeline.begin(), pipeline.end(), precision == passes::Precision::TF32 ? "codes" : rounding[0]), pipeline.end());
  pipeline.insert(pipeline.end(), rounding.begin(), rounding.end());
  return passes::run(ctx, f, options);
}

// The least that a figure says: a step of the type, averaged over a million products. Below it something else than rounding decides, as a softmax
// of one class that is 1 to the last digit.
double least_figure(passes::Precision precision) {
  const double step = precision == passes::Precision::BF16 ? 0x1p-9 : 0x1p-12;
  return step / 1024;
}

// Whether products of `rounded` are of other factors than those of `oracle`.
bool rounds(const nest::Function& oracle, const nest::Function& rounded, passes::Precision precision) {
  const auto count = [&](const nest::Function& f) {
    size_t found = 0;
    const auto is_short = [](DType t) { return t == DType::BF16 || t == DType::F16; };
    for (const nest::Statement& s : f.body)
      if (s.nest)
        for (const nest::Write& w : s.nest->writes)
          ir::walk(w.value, [&](const ir::Expr* e) { found += precision == passes::Precision::TF32 ? e->op == ir::Op::Tf32 : is_short(e->type.dtype); });
    return found;
  };
  return count(rounded) > count(oracle);
}

// Whether an element that is a number became none.
bool overflows(const nest::Tensor& answer, const nest::Tensor& rounded) {
  if (!is_recorded(answer) || !is_float(answer.dtype) || answer.shape != rounded.shape) return false;
  const auto is_finite = [](const nest::Tensor& t, uint64_t i) { return std::isfinite(ir::load_element(t.dtype, t.bytes.data(), i).f); };
  for (uint64_t i = 0; i < static_cast<uint64_t>(answer.elements()); ++i)
    if (is_finite(answer, i) && !is_finite(rounded, i)) return true;
  return false;
}

}  // namespace

Result<std::optional<Rounding>> measure_rounding(ir::Context& ctx, const nest::Function& oracle, GoldenSet& golden, passes::Precision precision, passes::RoundedValues values, double& work) {
  // Passes run on functions without control flow. What others lose is not known; streaming nets of speech were seen to move by 3 %.
  constexpr double kUnknown = 0.04;
  const bool is_plain = std::all_of(oracle.body.begin(), oracle.body.end(), [](const nest::Statement& s) { return !s.control; });
  for (GoldenVector& vector : golden.vectors)
    if (!is_plain) vector.rounding.assign(vector.outputs.size(), kUnknown);
  if (golden.vectors.empty()) return std::optional<Rounding>();
  if (!is_plain) return std::optional(Rounding{oracle.name, "", 0, Rounding::Unknown::ControlFlow});
  nest::Function rounded = nest::copy_of(oracle);
  MLC_RETURN_IF_ERROR(round_factors(ctx, rounded, precision, values));
  std::optional<Rounding> most;
  bool tells = false;
  for (GoldenVector& vector : golden.vectors) {
    nest::InterpretOptions how;
    how.work = &work;
    const auto outputs = nest::interpret(rounded, vector.inputs, how);
    if (!outputs.ok() && outputs.status().code != Code::Cancelled) return Status(outputs.status());
    for (size_t k = 0; outputs.ok() && k < vector.outputs.size(); ++k) {
      if (overflows(vector.outputs[k], (*outputs)[k]))
        return Status(Code::Unsupported, compose("with factors of {} '{}' is infinite or no number: a factor is beyond what the type holds", passes::name_of(precision), oracle.arrays[oracle.outputs[k]].name))
            .hint("--precision bf16 has the range of f32; --golden in.npz takes inputs of yours, which may be smaller");
      const double error = spread_of(vector.outputs[k], (*outputs)[k]);
      vector.rounding.push_back(error);
      if (is_recorded(vector.outputs[k]) && (!most || error > most->error)) most = Rounding{oracle.name, oracle.arrays[oracle.outputs[k]].name, error};
    }
    for (size_t k = 0; k < vector.outputs.size(); ++k) tells |= vector.tells(k);
  }
  if (most && most->error < least_figure(precision) && rounds(oracle, rounded, precision)) most->unknown = Rounding::Unknown::Saturated;
  if (tells || !most) return most;
  const std::string lost = std::isfinite(most->error) ? compose("is off by {} % of its largest value", std::lround(100 * most->error)) : "has another shape";
  return Status(Code::SelfTest, compose("with factors of {} '{}' {}, more than a golden vector can tell from an error", passes::name_of(precision), most->output, lost))
      .hint("--precision f32 keeps the digits that this model needs; --golden in.npz takes inputs of yours, which may need fewer; --no-golden makes the file without a test");
}

}  // namespace mlc::compile
