// What bench and profile feed: what -i says; with --dim random arrays; else those of the golden vector, which are legal and of a
// plausible shape; else random ones.
#pragma once

#include <string>
#include <vector>

#include "base/cli/report.h"
#include "runtime/cli/inputs/program_io.h"

namespace mlc::cli {

struct BenchInputs {
  const char* from = "";  // "given", "random", "golden"
  std::vector<NamedTensor> owned;
  mlio::Views views;
};
// `pipeline_too`: a pipeline with several programs is run as a whole, over inputs that are given; Usage else.
Result<BenchInputs> bench_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& options, io::InputFiles& files,
                                 InputMemory& memory, bool pipeline_too);
// Whether what runs is a pipeline with several programs.
bool runs_several(const mlio::Target& target);

// {"from", "extents": {name: value}, "arrays": [{"name", "type", "from"}]}
Json fed_json(const OpenModel& model, const mlio::Target& target, const InputOptions& options, const BenchInputs& inputs);
// Lines: where it is from and the free extents, then a line for each array.
std::string fed_text(const Json& fed);

}  // namespace mlc::cli
