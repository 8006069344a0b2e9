// One graph on all paths, compared with the interpreter of what was expanded.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "packager/lang/lang.h"
#include "packager/nest/evaluate/tensor.h"
#include "tests/conformance/run/answers.h"

namespace mlc::random_graphs {

enum class Sort : uint8_t {
  Pass,
  Differs,  // from the interpreter
  Error,    // where none is allowed
  Refused,  // unsupported, or a free graph that does not say enough; not a failure
  Crash,    // of the process, or no end
};
inline constexpr const char* kSortNames[] = {"pass", "differs", "error", "refused", "crash"};

struct Report {
  std::string path;  // "oracle": before any path
  Sort sort = Sort::Pass;
  std::string text;
};

struct Trial {
  onnx::ModelProto model;
  std::vector<nest::Tensor> inputs;
};

// How far each output of a right answer may be from the oracle's (README.md, "What counts as the same").
struct Bound {
  double elementwise = 0, of_largest = 0;  // relative
  double spread = 0;                       // absolute: what rounding moves
};

struct Oracle {
  std::vector<nest::Tensor> outputs;
  std::vector<Bound> bounds;
};

// A graph that is expanded, and what is right.
struct Begun {
  std::unique_ptr<conformance::Answers> answers;
  Oracle oracle;
  std::optional<Report> failed;  // before any path; nothing else counts then
};
Begun begin_trial(const lang::Library& library, const Trial& trial);

// Reports the oracle only if something is wrong with it, then the paths from number `first` on. `know`: told the
// oracle's answer.
void run_trial(const lang::Library& library, const Trial& trial, const std::vector<conformance::Path>& paths,
               size_t first, const std::function<void(const Report&)>& report,
               const std::function<void(const Oracle&)>& know = {});

// The first difference between an answer and the oracle's; empty if it is right.
std::string difference(const std::vector<nest::Tensor>& got, const Oracle& oracle);

// Whether rounding moves an output so far that little can be said about it.
bool moves(const nest::Tensor& output, const Bound& bound);

// In the layout of ONNX's test data: FOLDER/model.onnx, test_data_set_0/input_0.pb, ... False if it cannot be written.
bool save_trial(const std::string& folder, const Trial& trial, const std::vector<nest::Tensor>& outputs);
Status load_trial(const std::string& folder, Trial& trial);

}  // namespace mlc::random_graphs
