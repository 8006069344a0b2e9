// From the arguments of -i to the tensors of a program, and from its results to answers: through the pipeline of the
// container or, with --raw or where there is none, as bare arrays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/options.h"
#include "runtime/io/file.h"
#include "runtime/io/tensor.h"
#include "runtime/pipeline/host_pipeline.h"

namespace mlc::cli {

struct InputOptions {
  std::vector<std::string> specs;  // [NAME=]X
  bool raw = false;
  std::string pipeline;            // name, where the file has several
  std::string program;             // with --raw; empty: main
  std::vector<std::string> dims;   // NAME=N for random and zeros
};
void add_input_options(CLI::App& app, InputOptions& options);

// What is going to run: a program, and the pipeline around it if there is one.
struct Target {
  uint32_t program = 0;
  std::optional<pipeline::HostPipeline> pipeline;
};
Result<Target> choose_target(const OpenModel& model, const InputOptions& options);

// The tensors of the program's inputs, named; the items of a list one behind the other under its name. Everything that is wrong or missing is reported at once (E4001).
Result<std::vector<NamedTensor>> make_inputs(const OpenModel& model, const Target& target, const InputOptions& options,
                                             io::InputFiles& files);

// Views of tensors for the C API. The tensors must outlive the views.
struct Views {
  std::vector<MlcTensor> tensors;
  std::vector<std::vector<MlcTensor>> items;  // of lists
  std::vector<std::vector<MlcString>> strings;
};
Views views_of(const OpenModel& model, uint32_t program, const std::vector<NamedTensor>& tensors);
// The outputs of a run by name: views, valid until the session's next run, but for strings, which are copied. The items of
// a list NAME are called NAME.0, NAME.1, ... Resource (E6006) where copies and names of a file that nobody trusts take
// more than a bound, for strings and items may share their memory in the session.
Result<std::vector<NamedTensor>> results_of(const OpenModel& model, uint32_t program, const std::vector<MlcTensor>& outputs);

// Runs the program once.
Result<std::vector<MlcTensor>> run_once(const OpenModel& model, const OpenSession& session, uint32_t program,
                                        const std::vector<MlcTensor>& inputs);

}  // namespace mlc::cli
