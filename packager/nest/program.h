// A function whose sizes the run decides, cut into functions of which each is static once it is called, and the steps
// that call them. passes/segments/partition.h cuts; plan/plan_builder.h writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::nest {

struct Step {
  StepOp op = StepOp::None;                        // not Read; operands as schema/steps.h says, with values for arrays
  std::vector<std::string> functions;              // segments and programs by name; they begin with the caller's name and "/"
  std::vector<uint32_t> inputs, outputs;           // values; kNoArray: absent, not wanted
  uint32_t carried = 0;
  StepSettings set;
  std::string service, options;
  std::vector<int64_t> extents;                    // Host: of the results, one after the other; -1: dynamic
  std::string source;
};

struct Program {
  struct Value {
    std::string name;
    DType dtype = DType::None;
    uint8_t list_depth = 0;
    uint32_t rank = 0;
  };
  // Inputs, with what must hold of them before anything runs; no statements.
  Function interface;
  std::vector<Value> values;      // the inputs first
  std::vector<uint32_t> outputs;  // values
  std::vector<std::string> output_names;
  std::vector<Step> steps;
};

}  // namespace mlc::nest
