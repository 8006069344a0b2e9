#include "runtime/cli/isolation.h"

#include "base/checked.h"
#include "base/files/file_calls.h"
#include "runtime/cli/answers/answers.h"
#include "runtime/cli/crash.h"
#include "runtime/io/input_spec.h"
#include "runtime/io/picture/image.h"
#include "runtime/isolation/child_answer.h"
#include "runtime/probe/probe.h"
#include "runtime/sandbox/sandbox.h"

namespace mlc::cli {
namespace {

MlcFileInfo info_of(const OpenFiles& files) {
  auto info = sized<MlcFileInfo>();
  api().file_info(files.container.get(), &info);
  return info;
}

Status put_in_place(OpenFiles& files) {
  if (files.output && files.output_name) MLC_RETURN_IF_ERROR(files.output->rename(files.output_name()));
  if (files.output) MLC_RETURN_IF_ERROR(files.output->commit());
  for (auto& document : files.documents)
    if (document) MLC_RETURN_IF_ERROR(document->commit());
  return ok();
}

int answer_here(const ContainerCommand& command, OpenFiles& files, const std::function<Result<Report>(OpenFiles&)>& body) {
  if (command.as_json) crash_with_json(command.name);
  Result<Report> report = reported(command.container.file, "", [&] { return body(files); });
  if (report.ok() && report->failure.ok())
    if (Status placed = put_in_place(files); !placed.ok()) report = std::move(placed);
  if (report.ok()) report->json["isolated"] = false;
  return finish(command.name, command.as_json, report);
}

uint64_t threads_of(const ContainerCommand& command) {
  return command.runs.threads != 0 ? command.runs.threads : probe::workers_for(probe::host().topology, 0);
}

// Processor time of all runs; none: one of them has no limit of time.
Result<std::optional<uint64_t>> run_seconds(const ContainerCommand& command, const OpenFiles& files, bool is_untrusted) {
  constexpr uint64_t kSecond = 1'000'000'000;
  if (!command.runs.limits) return std::optional<uint64_t>(0);
  MLC_ASSIGN(uint64_t each, time_limit(*command.runs.limits));
  if (each == 0) each = is_untrusted ? kUntrustedNs : MLC_NO_LIMIT;
  if (each == MLC_NO_LIMIT) return std::optional<uint64_t>();
  const uint64_t wall = command.runs.beside_ns / kSecond + checked_mul(each / kSecond + 2, command.runs.count + files.more_runs).value_or(UINT32_MAX);
  return std::optional<uint64_t>(checked_mul(wall, threads_of(command)).value_or(UINT32_MAX));
}

Result<ChildWork> work_of(const ContainerCommand& command, const OpenFiles& files) {
  const bool is_untrusted = info_of(files).native_code == MLC_NATIVE_NEVER;
  ChildWork work{.native_code = !is_untrusted, .keeps_stdin = files.uses_stdin, .input_bytes = files.input_bytes, .sessions = command.runs.sessions, .threads = threads_of(command)};
  work.container_bytes = regular_file_size(command.container.file).value_or(0);
  MLC_ASSIGN(work.run_seconds, run_seconds(command, files, is_untrusted));
  uint64_t given = 0;
  if (command.runs.limits) {
    MLC_ASSIGN(given, memory_limit(*command.runs.limits));
  }
  work.is_memory_unlimited = files.uses_stdin || files.is_length_unknown || given == MLC_NO_LIMIT;  // the length of standard input is not known
  work.memory_limit = given;
  return work;
}

}  // namespace

Result<OpenFiles> open_files(const ContainerCommand& command) {
  OpenFiles files;
  files.name = command.container.file;
  if (!command.output.empty()) MLC_RETURN_IF_ERROR(check_output_name(command.output));
  MLC_ASSIGN(files.container, authenticate(command.container, files.authenticate_ns));
  // Where no process is to be had, a file that rules are about which depend on what it says is opened here: open_model refuses it if they
  // do not trust it.
  const int32_t native_code = info_of(files).native_code;
  files.isolated = command.container.isolated || (native_code != MLC_NATIVE_CERTAIN && (native_code == MLC_NATIVE_NEVER || sandbox::why_no_process().empty()));
  for (const std::string& text : command.inputs)
    for (const std::string& path : io::paths_possible(text)) {
      files.uses_stdin = files.uses_stdin || path == "-";
      if (files.isolated) files.inputs.open_ahead(path);
      const std::optional<uint64_t> size = regular_file_size(path);
      files.input_bytes = checked_add(files.input_bytes, size.value_or(0)).value_or(UINT64_MAX);
      files.is_length_unknown = files.is_length_unknown || (!size && has_file(path) && !is_folder(path));
    }
  if (!command.output.empty()) {
    MLC_ASSIGN(io::FileWriter writer, io::FileWriter::create(command.output));
    files.output.emplace(std::move(writer));
  }
  for (const std::string& name : command.documents) {
    std::optional<io::FileWriter>& document = files.documents.emplace_back();
    if (name.empty()) continue;
    MLC_ASSIGN(io::FileWriter writer, io::FileWriter::create(name));
    document.emplace(std::move(writer));
  }
  if (command.prepare) MLC_RETURN_IF_ERROR(command.prepare(files));
  return files;
}

int answer_isolated(const ContainerCommand& command, OpenFiles& files, const std::vector<int>& inherited,
                    const std::function<Result<Report>(OpenFiles&)>& body, const Printer& print) {
  const ChildCommand child{.name = command.name, .as_json = command.as_json, .file = command.container.file,
                           .help = "--memory-limit allows more, if the host has it", .inherited = inherited,
                           .begin = io::load_codecs,  // no file is opened later on
                           .work = [&] { return work_of(command, files); },
                           .print = print};
  const auto ended = [&] { files.output.reset(), files.documents.clear(); };
  if (const int code = answer_in_child(child, true, [&] { return body(files); }, ended); code != 0) return code;
  const Status placed = put_in_place(files);
  if (!placed.ok()) note(placed.text());  // the child has printed the answer
  return static_cast<int>(placed.code);
}

Status check_isolation(const ContainerCommand& command) {
  const std::string no_filter = command.container.isolated ? sandbox::why_no_call_filter() : std::string();
  return no_filter.empty() ? ok() : Status(Code::Resource, 6013, "--isolated: " + no_filter);
}

int answer(const ContainerCommand& command, const std::function<Result<Report>(OpenFiles&)>& body) {
  std::vector<int> inherited = sandbox::open_descriptors();
  std::erase(inherited, command.keep);
  if (Status possible = check_isolation(command); !possible.ok()) return finish(command.name, command.as_json, std::move(possible));
  auto files = open_files(command);
  if (!files) return finish(command.name, command.as_json, files.status());
  return files->isolated ? answer_isolated(command, *files, inherited, body, {}) : answer_here(command, *files, body);
}

}  // namespace mlc::cli
