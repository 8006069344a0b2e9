// What the list Controls do, on values of the host. Shared by the interpreter and the executor: every input is checked.
#pragma once

#include <vector>

#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// One of the List kinds of Control. `inputs` as the control lists them, null where it says kNoArray; `result` is the
// array that it writes (element type and depth of an empty list are its).
Result<Tensor> run_list(const Control& control, const Array& result, const std::vector<const Tensor*>& inputs);

// Arrays of one shape along a new axis, the first; `like` gives the shape of the result if there are none.
Result<Tensor> stack(const std::vector<Tensor>& items, Tensor like);

}  // namespace mlc::nest
