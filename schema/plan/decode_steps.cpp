#include <cstring>

#include "schema/plan/decode_function.h"

namespace mlc::exec {

// What the operands mean is check_programs' concern.
Status FunctionDecoder::read_steps() {
  out_.num_values = in_.num_values();
  out_.steps.resize(length_of(in_.steps()));
  for (uint32_t i = 0; i < out_.steps.size(); ++i) {
    const fbp::Step& in = *in_.steps()->Get(i);
    Step& step = out_.steps[i];
    place_ = {"step", i};
    if (in.name()) step.name = shown(*in.name());
    const auto op = static_cast<uint8_t>(in.op());
    if (op == 0 || op > kLastStepOp) return wrong("operation");
    step.op = static_cast<StepOp>(op);
    const auto copy = [](const flatbuffers::Vector<uint32_t>* from, std::vector<uint32_t>& to) {
      to.resize(length_of(from));
      for (uint32_t k = 0; k < to.size(); ++k) to[k] = from->Get(k);
      return to.size() <= kMaxOperands;
    };
    if (!copy(in.functions(), step.functions) || !copy(in.inputs(), step.inputs) || !copy(in.outputs(), step.outputs))
      return wrong("too many operands, at most 4096 are read");
    step.carried = in.carried();
    step.axis = in.axis();
    step.new_axis = in.new_axis();
    step.drop_axis = in.drop_axis();
    step.max_cuts = in.max_cuts();
    step.min_letters = in.min_letters();
    step.between = in.between();
    const auto change = static_cast<uint8_t>(in.case_change());
    if (change > kLastCaseChange) return wrong("change of case");
    step.case_change = static_cast<CaseChange>(change);
    step.match_case = in.match_case();
    step.integers = in.integers();
    step.dtype = dtype_of(in.dtype()).value_or(DType::None);
    step.list_depth = in.list_depth();
    if (step.op != StepOp::Host) continue;
    if (!in.service() || !is_name(*in.service())) return bad("step {}: name of a service", i);
    step.service = in.service()->str();
    if (in.options()) step.options = in.options()->str();
    // Like structs, 8-byte numbers in a vector may lie at any multiple of four.
    step.results.resize(length_of(in.results()));
    if (!step.results.empty())
      std::memcpy(step.results.data(), in.results()->Data(), step.results.size() * sizeof(int64_t));
  }
  return ok();
}

}  // namespace mlc::exec
