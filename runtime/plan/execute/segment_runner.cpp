#include "runtime/plan/execute/segment_runner.h"

#include <algorithm>
#include <string>

#include "base/compose.h"

namespace mlc::exec {
namespace {

const char* fault_text(int32_t fault) {
  switch (fault) {
    case MLRUN_FAULT_INDEX: return "an index lies outside its array";
    case MLRUN_FAULT_DIVISION: return "integer division by zero";
    case MLRUN_FAULT_BOUND: return "a loop exceeded its bound";
    case MLRUN_FAULT_BAD_CODE: return "the code breaks its own rules";
    case MLRUN_FAULT_VECTORS: return "the vector registers of this thread are shorter than the variant wants (PR_SVE_SET_VL)";
    default: return "unknown fault";
  }
}

}  // namespace

// An index or a divisor may come from the values of the inputs, the length of vectors from the thread; the rest is up to the code.
Status fault_status(int32_t fault, const Function& function, uint32_t instr, Code broken_code) {
  const Instr& at = function.body[instr];
  const bool of_values = fault == MLRUN_FAULT_INDEX || fault == MLRUN_FAULT_DIVISION;
  const Code code = of_values ? Code::InputMismatch : fault == MLRUN_FAULT_VECTORS ? Code::NoVariant : broken_code;
  Status s(code, of_values ? 4005 : 0, "kernel {}{} failed: {} (fault {})", at.kernel,
           at.name.empty() ? "" : " (" + at.name + ")", fault_text(fault), fault);
  if (fault == MLRUN_FAULT_INDEX)
    for (const Port& port : function.inputs)
      if (is_int(port.dtype) && std::find(at.buffers.begin(), at.buffers.end(), port.buffer) != at.buffers.end())
        s.facts.push_back(compose("it reads input '{}' ({}), whose numbers may be the indices", port.name, name_of(port.dtype)));
  if (of_values) s.facts.push_back("the values of the inputs do not fit the model, or the model's code is wrong");
  return s;
}

}  // namespace mlc::exec
