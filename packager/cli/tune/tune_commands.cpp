#include "packager/cli/tune/tune_commands.h"

#include <charconv>
#include <filesystem>
#include <memory>
#include <span>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "packager/cli/model_flags.h"
#include "packager/cli/progress.h"
#include "packager/cli/tune/tune_ops.h"
#include "packager/compile/cache/code_cache.h"
#include "packager/compile/source/pipelines.h"
#include "packager/container/output_file.h"

namespace mlc::cli {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 28;

struct TuneFlags {
  ModelFlags model;
  std::string output, target = "native", progress = "auto";
  std::vector<std::string> at;
  unsigned threads = 1, compile_threads = 0;
  double seconds = 2;
  bool as_json = false;
};

Result<std::map<std::string, int64_t>> parse_extents(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> out;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    if (const auto r = std::from_chars(begin, end, value); r.ec != std::errc() || r.ptr != end || begin == end || value < 0 || equals == 0)
      return Status(Code::Usage, "--at '" + text + "' is not NAME=N");
    out[text.substr(0, equals)] = value;
  }
  return out;
}

// What is there already is kept: records of other machines, models, extents.
Result<tune::Records> known_records(const std::string& path) {
  if (!std::filesystem::exists(path)) return tune::Records();
  return read_records(path);
}

std::string milliseconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", static_cast<double>(ns) / 1e6);
  return text;
}

Result<Report> run_tune(TuneFlags& flags) {
  TuneOptions options;
  MLC_RETURN_IF_ERROR(apply(flags.model, options.build));
  MLC_ASSIGN(const auto targets, targets_named({flags.target}));
  if (targets.size() != 1) return Status(Code::Usage, "--target: one target is tuned at a time").hint("--target native");
  options.target = targets.front();
  MLC_ASSIGN(options.extents, parse_extents(flags.at));
  MLC_ASSIGN(tune::Records records, known_records(flags.output));
  MLC_RETURN_IF_ERROR(container::OutputFile::try_create(flags.output));
  options.threads = flags.threads;
  options.seconds = flags.seconds;
  options.build.threads = flags.compile_threads;
  options.build.output_path = flags.output;
  if (auto folder = compile::code_cache_folder(); folder.ok()) options.build.cache_folder = std::move(folder).value();
  ProgressLine progress(flags.progress, flags.as_json);
  options.build.progress = [&](const compile::Stage& stage) { progress.show(stage); };
  auto tuned = tune_model(options);
  progress.clear();
  if (!tuned.ok()) return std::move(tuned).status();
  if (!flags.as_json)
    for (const std::string& warning : tuned->warnings) note("warning: " + printable(warning));
  for (const tune::Record& record : tuned->records.all()) records.add(record);
  const std::string text = records.print();
  MLC_ASSIGN(container::OutputFile file, container::OutputFile::create(flags.output));
  MLC_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  MLC_RETURN_IF_ERROR(file.commit());

  Report report;
  report.text = "  measured  " + counted(tuned->nests, "nest") + " with alternatives, " + options.target->name + ", " + counted(options.threads, "thread") + "\n" +
                "  better    " + std::to_string(tuned->gaining) + " of them; launches of a run " + milliseconds(tuned->before_ns) + ", with these " +
                milliseconds(tuned->after_ns) + "\n" + "  wrote     " + flags.output + "   " + counted(records.all().size(), "record") + "\n";
  report.json = {{"file", flags.output}, {"target", options.target->name}, {"threads", options.threads}, {"nests", tuned->nests}, {"better", tuned->gaining},
                 {"before_ns", tuned->before_ns}, {"after_ns", tuned->after_ns}, {"records", records.all().size()}, {"warnings", tuned->warnings}};
  return report;
}

}  // namespace

Result<tune::Records> read_records(const std::string& path) {
  MLC_ASSIGN(const std::vector<std::byte> bytes, compile::read_file(path, kLargestFile));
  auto records = tune::Records::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!records.ok()) return std::move(records).status().note(path);
  return records;
}

void add_tune_commands(Program& program) {
  auto flags = std::make_shared<TuneFlags>();
  const Command command = program.add_command("tune", "measure which schedules are best here",
                                              "  mlpack tune model.onnx -o model.tuning\n"
                                              "  mlpack tune bert.onnx --at batch=1 --at sequence=128 -o bert.tuning\n",
                                              flags->as_json);
  add_model_flags(command, flags->model, "ONNX file, or a folder of Transformers with one");
  command.add_option("-o,--output", flags->output, "the records; what the file holds already is kept").required();
  command.add_option("--target", flags->target, "the target to measure; it must run here").shows_default();
  command.add_option("--at", flags->at, "value of a free extent, NAME=N, at which times are taken");
  command.add_option("--run-threads", flags->threads, "threads that run the model").within(1, 4096).shows_default();
  command.add_option("--time", flags->seconds, "seconds of runs for each alternative").within(0.0, 3600.0).shows_default();
  command.add_option("--threads", flags->compile_threads, "threads that compile at once (default: one per core)").within(1, 4096);
  command.add_option("--progress", flags->progress, "auto, tty, plain or none").one_of({"auto", "tty", "plain", "none"});
  command.on_run([flags] { return finish("tune", flags->as_json, run_tune(*flags)); });
}

}  // namespace mlc::cli
