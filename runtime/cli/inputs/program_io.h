// From the arguments of -i to the tensors of a program, and from its results to answers: through the pipeline of the
// container or, with --raw or where there is none, as bare arrays.
#pragma once

#include <string>
#include <vector>

#include "base/cli/command.h"
#include "runtime/cli/options.h"
#include "runtime/io/file.h"
#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"
#include "runtime/mlio/runner.h"

namespace mlc::cli {

// What inputs may take of the memory that the user allows with --memory-limit, or the profile of the untrusted where the
// file says how large they are.
class InputMemory {
 public:
  static Result<InputMemory> allowed(const OpenModel& model, const LimitOptions& limits);

  // For what the user gives: everything counts where the user said how much, and of an untrusted file all that its
  // pipeline has decoded.
  io::DecodeLimits for_files() const;
  // For what is made up to the shapes of the file. Resource (E6006) unless there is room; `what` names it.
  Status take_made_up(uint64_t bytes, const std::string& what);
  void take_files(uint64_t bytes);
  // What counts against the session's limit, because the user's limit is one for both.
  uint64_t shared_with_session() const { return is_given_ ? taken_ : 0; }

 private:
  InputMemory(uint64_t limit, bool is_given, bool is_trusted) : limit_(limit), is_given_(is_given), is_trusted_(is_trusted) {}

  uint64_t limit_, taken_ = 0;
  bool is_given_, is_trusted_;
};

struct InputOptions {
  std::vector<std::string> specs;  // [NAME=]X
  bool raw = false;
  std::string pipeline;            // name, where the file has several
  std::string program;             // with --raw; empty: main
  std::vector<std::string> dims;   // NAME=N for random and zeros
};
void add_input_options(const Command& command, InputOptions& options);

// What answers may take: as the user says with --memory-limit, or the profile of the untrusted.
Result<pipeline::AnswerBudget> answer_budget(const OpenModel& model, const LimitOptions& limits);

// What is going to run.
Result<mlio::Target> choose_target(const OpenModel& model, const InputOptions& options);
// What -i may name.
std::vector<std::string> input_names(const OpenModel& model, const mlio::Target& target);
// Names of the extents of a port that only a run tells, once each.
std::vector<std::string> free_extents(const MlcPort& port);
// "f32[N,3,224,224]"; '?' for an extent that follows from others by a long expression.
std::string port_text(const MlcPort& port);

// The tensors of the program's inputs, named; the items of a list one behind the other under its name. Everything that is wrong or missing is reported at once (E4001).
Result<std::vector<NamedTensor>> make_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& options,
                                             io::InputFiles& files, InputMemory& memory);
// Of a pipeline with a stream: what is given beside its sound.
Result<std::vector<NamedTensor>> make_inputs_beside_sound(const OpenModel& model, const mlio::Target& target, const InputOptions& options,
                                                          io::InputFiles& files, InputMemory& memory);
// Names of the inputs of a pipeline that take texts.
std::vector<std::string> text_names(const mlio::Target& target);
// Random ones for the arrays that the program takes, those of a pipeline behind its decoders, with the extents of --dim.
Result<std::vector<NamedTensor>> make_up_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& options,
                                                InputMemory& memory);

}  // namespace mlc::cli
