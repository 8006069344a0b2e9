// What the string Controls do, on values of the host, and the table that turns texts into numbers and back. There is one
// table in the process: equal texts have equal numbers in every function that is interpreted.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

uint64_t number_of_text(const std::string& text);
Result<std::string> text_of_number(uint64_t number);

// One of the string kinds of Control; its results. Every input is checked.
Result<std::vector<Tensor>> run_strings(const Control& control, const std::vector<const Tensor*>& inputs);

}  // namespace mlc::nest
