// From the arguments of -i to the tensors of a program, and from its results to answers: through the pipeline of the
// container or, with --raw or where there is none, as bare arrays.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/options.h"
#include "runtime/io/file.h"
#include "runtime/io/tensor.h"
#include "runtime/mlio/runner.h"

namespace mlc::cli {

struct InputOptions {
  std::vector<std::string> specs;  // [NAME=]X
  bool raw = false;
  std::string pipeline;            // name, where the file has several
  std::string program;             // with --raw; empty: main
  std::vector<std::string> dims;   // NAME=N for random and zeros
};
void add_input_options(CLI::App& app, InputOptions& options);

// What is going to run.
Result<mlio::Target> choose_target(const OpenModel& model, const InputOptions& options);

// The tensors of the program's inputs, named; the items of a list one behind the other under its name. Everything that is wrong or missing is reported at once (E4001).
Result<std::vector<NamedTensor>> make_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& options,
                                             io::InputFiles& files);

}  // namespace mlc::cli
