// Files, bytes or arrays in, labelled answers out: what runs around a model, in C++, over the table of mlc.h.
//
//   auto target = choose_target({api, model}, {});            // the pipeline of the container, or the bare program
//   auto made = target->pipeline->before(given);              // decoders
//   auto programs = programs_of({api, model}, session, nullptr, budget, run_ns);
//   auto answers = target->pipeline->run(std::move(*made), {}, budget, programs);   // the rest: arrays, classes, text
//
// run_pipeline does all of it and says how long each part took.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/api/mlc.h"
#include "runtime/io/input_spec.h"
#include "runtime/pipeline/host_pipeline.h"

namespace mlc::mlio {

// A model, and the table through which it is used. Both outlive all that is made of them.
struct ModelRef {
  const MlcApi& api;
  const MlcModel* model;
};

// Takes the error and releases it. By reference, because the call that sets it stands in the argument before.
Status status_of(const MlcApi& api, int code, MlcError*& error);

uint32_t num_programs(ModelRef model);
MlcProgram program_at(ModelRef model, uint32_t index);
MlcPort port_at(ModelRef model, uint32_t program, bool is_output, uint32_t index);
// By name; empty: the default one.
Result<uint32_t> program_index(ModelRef model, const std::string& name);

struct Choice {
  bool raw = false;      // the bare program, though there is a pipeline
  std::string pipeline;  // name, where the file has several; empty: that of the default program
  std::string program;   // of a bare run; empty: main, else the default one
};
// What is going to run: a program, and the pipeline around it if there is one.
struct Target {
  uint32_t program = 0;
  bool has_pipeline = false;  // the container, be it used or not
  std::optional<pipeline::HostPipeline> pipeline;
};
Result<Target> choose_target(ModelRef model, const Choice& choice);
// The pipelines of the container; none is not an error.
Result<std::vector<std::string>> pipeline_names(ModelRef model);

// A file of any kind, whatever is in it.
io::LoadedInput of_ends(io::FileEnds ends);
// The inputs of a pipeline that a file is: itself, or the arrays in it. `input` outlives them, but for its tensors.
void give(const std::string& name, io::LoadedInput& input, std::vector<pipeline::GivenInput>& given);

// Views of tensors for the C API, the items of a list one behind the other under its name. The tensors must outlive the views.
struct Views {
  std::vector<MlcTensor> tensors;
  std::vector<std::vector<MlcTensor>> items;  // of lists
  std::vector<std::vector<MlcString>> strings;
};
Views views_of(ModelRef model, uint32_t program, const std::vector<NamedTensor>& tensors);

// The outputs of a run by name: views, valid until the session's next run, but for strings, which are copied. The items of
// a list NAME are called NAME.0, NAME.1, ... Copies and names are paid for from `budget`, for strings and items may share their
// memory in the session.
Result<std::vector<NamedTensor>> results_of(ModelRef model, uint32_t program, const std::vector<MlcTensor>& outputs, pipeline::AnswerBudget& budget);

// What the profile of the untrusted (spec/untrusted.md) allows this model outside of its session: for all of what its pipeline has
// decoded, and for answers. Without a bound for a model that is trusted, but for each picture.
io::DecodeLimits decode_limits(ModelRef model);
pipeline::AnswerBudget answer_budget(ModelRef model);

// Runs the program once, whatever program the options name. They may be null.
Result<std::vector<MlcTensor>> run_once(ModelRef model, MlcSession* session, uint32_t program,
                                        const MlcRunOptions* options, const std::vector<MlcTensor>& inputs);

// The programs of the container, run in this session, as a pipeline uses them. The time that they take is added to `run_ns`. All
// arguments outlive the result; the options may be null.
pipeline::Programs programs_of(ModelRef model, MlcSession* session, const MlcRunOptions* options, pipeline::AnswerBudget& budget, uint64_t& run_ns);

struct Ran {
  std::vector<pipeline::Answer> answers;  // arrays among them as results_of
  uint64_t before_ns = 0, run_ns = 0, after_ns = 0;
  uint64_t first_sample = 0;  // of a chunk of a stream
};
Result<Ran> run_pipeline(ModelRef model, const Target& target, MlcSession* session, const MlcRunOptions* options,
                         std::vector<pipeline::GivenInput> given, std::optional<int64_t> top);

}  // namespace mlc::mlio
