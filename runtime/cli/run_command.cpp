#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "runtime/cli/answers/answers.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/files/run_files.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/stream/stream_chunks.h"
#include "runtime/cli/stream/stream_sound.h"
#include "runtime/cli/watched_programs.h"

namespace mlc::cli {
namespace {

struct RunOptions {
  ContainerOptions container;
  VariantOptions variant;
  InputOptions input;
  StreamOptions stream;
  std::string output;
  int64_t top = 0;
  bool as_json = false;
  std::string list;  // of files, each of which is answered
  bool as_json_lines = false;

  FilesRun files() const { return {container, variant, input, list, output, top, as_json, as_json_lines}; }
};

constexpr uint64_t kRunsOfStream = UINT32_MAX;  // runs of a stream, each of which has its own limits

struct InUse {
  OpenModel model;
  OpenSession session;  // of the model
};

// A sound in chunks: what each one gives is printed when it is there, and the report has the rest.
Result<Report> run_stream(const RunOptions& o, OpenFiles& files, OpenModel& model, const StreamWork& work) {
  if (!o.list.empty()) return Status(Code::Usage, "--input-list with --stream: a stream is one sound").hint("-i FILE, or without --stream the sounds of a list");
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  const uint64_t start = now_ns();
  MLC_ASSIGN(StreamInputs inputs, open_inputs(work, files, memory));
  const uint64_t pre_ns = now_ns() - start;
  MLC_ASSIGN(OpenSession session, open_session(model, o.variant, {.taken = memory.shared_with_session()}));
  say_what_crashed(model, session.info.variant);
  MLC_ASSIGN(const StreamDone done, run_chunks(work, std::move(inputs), session.session.get(), files.output ? &*files.output : nullptr));
  say_what_fell_back(session);
  const uint64_t open_ns = model.open_ns + session.load_ns;
  say_what_runs(model, session, counted(done.chunks, "chunk") + " · open " + ms_text(open_ns) + " · run " + ms_text(done.run_ns), o.as_json);
  Report report;
  report.json = fields_of_run(model, session);
  report.json["chunks"] = done.chunks;
  if (!o.output.empty()) report.json["output_file"] = o.output;
  report.json["timings"] = {{"open_ns", open_ns}, {"pre_ns", pre_ns}, {"run_ns", done.run_ns}};
  report.in_use = std::make_shared<const InUse>(InUse{std::move(model), std::move(session)});
  return report;
}

Result<Report> run(const RunOptions& o, OpenFiles& files) {
  MLC_ASSIGN(OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, o.input));
  if (o.top > 0 && !target.pipeline) return Status(Code::Usage, "--top chooses among the classes of a pipeline, and this run gives bare arrays").hint("leave out --raw, or --top");
  const StreamWork work{model, target, o.stream, o.input, o.variant.limits, o.top > 0 ? std::optional<int64_t>(o.top) : std::nullopt, o.as_json, o.output};
  MLC_RETURN_IF_ERROR(check_stream(work));
  MLC_RETURN_IF_ERROR(check_variant(model, o.variant));
  if (o.stream.is_on) return run_stream(o, files, model, work);
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  const uint64_t start = now_ns();
  MLC_ASSIGN(std::vector<NamedTensor> inputs, make_inputs(model, target, o.input, files.inputs, memory));
  const uint64_t pre_ns = now_ns() - start;
  const auto alone = target.pipeline ? std::nullopt : std::optional(target.program);
  MLC_ASSIGN(OpenSession session, open_session(model, o.variant, {.taken = memory.shared_with_session(), .program = alone}));
  say_what_crashed(model, session.info.variant);

  const uint64_t ready = now_ns();
  uint64_t run_ns = 0;
  MLC_ASSIGN(pipeline::AnswerBudget budget, answer_budget(model, o.variant.limits));
  const pipeline::Programs programs = watched_programs(model, session.session.get(), budget, run_ns);
  std::vector<pipeline::Answer> answers;
  if (target.pipeline) {
    MLC_ASSIGN(answers, target.pipeline->run(std::move(inputs), o.top > 0 ? std::optional<int64_t>(o.top) : std::nullopt, budget, programs));
  } else {
    MLC_ASSIGN(std::vector<NamedTensor> results, programs.run(mlio::program_at(model, target.program).name, inputs));
    answers = as_answers(std::move(results));
  }
  say_what_fell_back(session);
  const uint64_t done = now_ns();
  if (files.output) MLC_RETURN_IF_ERROR(write_answers(answers, o.output, *files.output, budget));

  const uint64_t open_ns = model.open_ns + session.load_ns;
  say_what_runs(model, session, "open " + ms_text(open_ns) + " · pre " + ms_text(pre_ns) + " · run " + ms_text(run_ns) +
                                    " · post " + ms_text(done - ready - run_ns), o.as_json);
  Report report;
  report.json = fields_of_run(model, session);
  const bool shows = o.output.empty() || holds_one_file(o.output);
  if (shows && !o.as_json) {
    MLC_ASSIGN(report.text, text_of(answers, budget));
  }
  if (!o.output.empty()) report.json["output_file"] = o.output;
  if (shows && o.as_json) {
    MLC_ASSIGN(report.json["outputs"], json_of(answers, budget));
  }
  report.json["timings"] = {{"open_ns", open_ns}, {"pre_ns", pre_ns}, {"run_ns", run_ns}, {"post_ns", done - ready - run_ns}};
  report.in_use = std::make_shared<const InUse>(InUse{std::move(model), std::move(session)});
  return report;
}

}  // namespace

void add_run_command(Program& program) {
  auto o = std::make_shared<RunOptions>();
  const Command command = program.add_command("run", "run once, through the pipeline in the file",
                                              "  mlrun cat.mlc --input cat.jpg --top 3\n"
                                              "  mlrun cat.mlc --input photos/ --json-lines\n"
                                              "  mlrun net.mlc --raw -i in.npz -o out.npz --variant x86-64-v3\n",
                                              o->as_json);
  add_container_options(command, o->container);
  add_input_options(command, o->input);
  add_variant_options(command, o->variant);
  add_limit_options(command, o->variant.limits);
  command.add_option("-o,--output", o->output, "write the answers: .npz, .npy, .json, or .png the picture among them, .wav the sound; of several files a folder for the picture or sound of each; with --stream .wav");
  command.add_option("--input-list", o->list, "answer each file that this file names, a line each; '-': those that standard input names");
  command.add_flag("--json-lines", o->as_json_lines, "answer each file that is given, or that is in a folder, by one line of JSON; with --stream as --json");
  command.add_flag("--stream", o->stream.is_on,
      "run over a sound chunk by chunk, as the pipeline says, and print what each gives when it is there: a line each that begins with its time in seconds; with --json an object each; of -i - a WAV file as it comes");
  command.add_option("--pcm", o->stream.pcm,
      "with --stream: the input is raw samples, FORM:RATE[:CHANNELS], as from a microphone: s16le:16000; FORM is u8, s16le, s24le, s32le, f32le or f64le");
  command.add_option("--top", o->top, "how many classes").within(1, 1000000);
  command.on_run([o] {
    if (o->stream.is_on) o->as_json |= o->as_json_lines;  // its chunks are lines of JSON anyway
    else if (means_files(o->files())) return run_files(o->files());
    return answer({"run", o->as_json, o->container, o->input.specs, o->output,
                        {.limits = &o->variant.limits, .count = o->stream.is_on ? kRunsOfStream : 1, .threads = o->variant.threads}},
                       [&](OpenFiles& files) { return run(*o, files); });
  });
}

}  // namespace mlc::cli
