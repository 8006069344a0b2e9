#include "runtime/cli/isolation.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "base/checked.h"
#include "base/sanitized.h"
#include "runtime/cli/answers.h"
#include "runtime/cli/crash.h"
#include "runtime/io/input_spec.h"
#include "runtime/io/limits.h"
#include "runtime/probe/probe.h"
#include "runtime/sandbox/sandbox.h"

namespace mlc::cli {
namespace {

// Beyond the memory that the host has to give: what the process itself needs. Plans have a tighter budget of their own.
constexpr uint64_t kMemoryOfTheProcess = uint64_t{256} << 20;
// What one run of a file may take that nobody trusts, by default, and a session of it (spec/untrusted.md).
constexpr uint64_t kUntrustedNs = 1'500'000'000, kUntrustedMemory = uint64_t{192} << 20;
// What such a file may take beside runs: what reads it, and answers as they are shown.
constexpr uint64_t kUntrustedBeside = uint64_t{128} << 20, kUntrustedSeconds = 10;

MlcFileInfo info_of(const OpenFiles& files) {
  auto info = sized<MlcFileInfo>();
  api().file_info(files.container.get(), &info);
  return info;
}

Result<OpenFiles> open_files(const ContainerCommand& command) {
  OpenFiles files;
  if (!command.output.empty()) MLC_RETURN_IF_ERROR(check_output_name(command.output));
  MLC_ASSIGN(files.container, authenticate(command.container, files.authenticate_ns));
  files.isolated = command.container.isolated || info_of(files).native_code != MLC_NATIVE_CERTAIN;
  for (const std::string& text : command.inputs)
    for (const std::string& path : io::paths_possible(text)) {
      files.uses_stdin = files.uses_stdin || path == "-";
      if (files.isolated) files.inputs.open_ahead(path);
      std::error_code unknown;
      const uint64_t bytes = std::filesystem::is_regular_file(path, unknown) ? std::filesystem::file_size(path, unknown) : 0;
      if (!unknown) files.input_bytes = checked_add(files.input_bytes, bytes).value_or(UINT64_MAX);
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
  return files;
}

Status put_in_place(OpenFiles& files) {
  if (files.output) MLC_RETURN_IF_ERROR(files.output->commit());
  for (auto& document : files.documents)
    if (document) MLC_RETURN_IF_ERROR(document->commit());
  return ok();
}

// What `body` reports; where it finds no memory, that: as any other failure, so that there is one document with --json too.
Result<Report> reported(const ContainerCommand& command, OpenFiles& files, const std::function<Result<Report>(OpenFiles&)>& body) {
  try {
    return body(files);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Status(Code::Resource, 6006, "there is no memory left for what " + command.container.file + " asks for")
      .hint(files.isolated ? "--memory-limit allows more, if the host has it" : "");
}

int answer_here(const ContainerCommand& command, OpenFiles& files, const std::function<Result<Report>(OpenFiles&)>& body) {
  if (command.as_json) crash_with_json(command.name);
  Result<Report> report = reported(command, files, body);
  if (report.ok() && report->failure.ok())
    if (Status placed = put_in_place(files); !placed.ok()) report = std::move(placed);
  if (report.ok()) report->json["isolated"] = false;
  return finish(command.name, command.as_json, report);
}

uint64_t threads_of(const ContainerCommand& command) {
  return command.runs.threads != 0 ? command.runs.threads : probe::workers_for(probe::host().topology, 0);
}

bool is_untrusted(const OpenFiles& files) { return info_of(files).native_code == MLC_NATIVE_NEVER; }

#ifdef MLC_SANITIZED
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

// CPU time of the process, so that it ends even where the limits of the library do not hold: that of the runs, and for all
// else a fixed one that grows with the file. 0: none, because a run has none.
Result<uint64_t> cpu_seconds(const ContainerCommand& command, const OpenFiles& files) {
  constexpr uint64_t kBesideRuns = 60, kBytesPerSecond = uint64_t{64} << 20, kSecond = 1'000'000'000;
  std::error_code unknown;
  const uint64_t bytes = std::filesystem::file_size(command.container.file, unknown);
  uint64_t seconds = is_untrusted(files) && !kSlow ? kUntrustedSeconds : kBesideRuns;
  seconds += ((unknown ? 0 : bytes) + files.input_bytes) / kBytesPerSecond;
  if (!command.runs.limits) return seconds;
  MLC_ASSIGN(uint64_t each, time_limit(*command.runs.limits));
  if (each == 0) each = is_untrusted(files) ? kUntrustedNs : MLC_NO_LIMIT;
  if (each == MLC_NO_LIMIT) return uint64_t{0};
  const uint64_t threads = threads_of(command);
  const uint64_t wall = command.runs.beside_ns / kSecond + checked_mul(each / kSecond + 2, command.runs.count).value_or(UINT32_MAX);
  return seconds + checked_mul(wall, threads).value_or(UINT32_MAX);
}

// Private memory of the process, so that it ends even where something is not counted that a file asks for. Of a file that nobody
// trusts: its sessions, what is decoded, the inputs (read, decoded and copied) and the stacks of the workers; else what the host has
// free. An input of unknown length, and a user who wants no limit, leave it at that.
Result<uint64_t> memory_bytes(const ContainerCommand& command, const OpenFiles& files) {
  const uint64_t free = probe::host().memory.effective_free_bytes;
  const uint64_t most = free > 0 ? free + kMemoryOfTheProcess : UINT64_MAX;
  uint64_t given = 0;
  if (command.runs.limits) {
    MLC_ASSIGN(given, memory_limit(*command.runs.limits));
  }
  if (!is_untrusted(files) || files.uses_stdin || given == MLC_NO_LIMIT) return free > 0 ? most : 0;
  pthread_attr_t defaults;
  size_t stack = 0;
  if (pthread_getattr_default_np(&defaults) == 0) {
    pthread_attr_getstacksize(&defaults, &stack);
    pthread_attr_destroy(&defaults);
  }
  io::MemoryNeed need{kUntrustedBeside};
  need.add(command.runs.sessions, given != 0 ? given : kUntrustedMemory);
  need.add(given != 0 ? given : io::kDefaultDecodeMemory);
  need.add(files.input_bytes, 3);
  need.add(threads_of(command) + 1, stack);
  return std::min(most, need.bytes);
}

Status give_up_privileges(const ContainerCommand& command, const OpenFiles& files) {
  leave_crashes_to_the_parent();
  // The probe reads /proc and tries pages of code; it looks at nothing of the container.
  probe::host();
  if (!files.uses_stdin) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > 2) close(nothing);
  }
  sandbox::Limits limits;
  MLC_ASSIGN(limits.cpu_seconds, cpu_seconds(command, files));
  MLC_ASSIGN(limits.memory_bytes, memory_bytes(command, files));
  limits.native_code = !is_untrusted(files);
  MLC_ASSIGN(const sandbox::Confinement confinement, sandbox::confine(limits));
  if (!confinement.no_call_filter.empty()) note("warning: system calls are not filtered: " + confinement.no_call_filter);
  return ok();
}

int answer_confined(const ContainerCommand& command, OpenFiles& files, const std::function<Result<Report>(OpenFiles&)>& body) {
  if (Status confined = give_up_privileges(command, files); !confined.ok())
    return finish(command.name, command.as_json, std::move(confined));
  Result<Report> report = reported(command, files, body);
  if (report.ok()) report->json["isolated"] = true;
  return finish(command.name, command.as_json, report);
}

// What a child that was ended by a signal says about the file.
Status status_of_signal(int signal, const std::string& file) {
  const std::string process = "the isolated process that opened " + file;
  switch (signal) {
    case SIGSYS:
      return Status(Code::Internal, 6011, process + " tried what it has no right to, and was ended")
          .hint("the file attacks this program, or this is a bug; what was printed is no answer");
    case SIGBUS: return changed_while_mapped(file);
    case SIGILL: return Status(Code::Internal, 6002, process + " ended with an illegal instruction");
    case SIGSEGV: return Status(Code::Internal, 6003, process + " ended with a memory fault");
    case SIGKILL:
      return Status(Code::Resource, 6012, process + " was killed").hint("the system may be out of memory: see its log");
    case SIGXCPU: return Status(Code::Cancelled, 6012, process + " has used up its CPU time");
    default: return Status(Code::Internal, 6012, process + " was ended by signal " + std::to_string(signal));
  }
}

// As this process would have ended, had there been no child.
void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int answer_isolated(const ContainerCommand& command, OpenFiles& files, const std::vector<int>& inherited,
                    const std::function<Result<Report>(OpenFiles&)>& body) {
  const auto end = sandbox::run_child(inherited, [&] { return answer_confined(command, files, body); });
  if (!end) return finish(command.name, command.as_json, end.status());
  switch (end->signal) {
    case 0: break;
    case SIGINT: case SIGTERM: case SIGHUP: case SIGQUIT: files.output.reset(); files.documents.clear(); end_by_signal(end->signal); break;
    default: return finish(command.name, command.as_json, status_of_signal(end->signal, command.container.file));
  }
  if (end->exit_code != 0) return end->exit_code;
  const Status placed = put_in_place(files);
  if (!placed.ok()) note(placed.text());  // the child has printed the answer
  return static_cast<int>(placed.code);
}

}  // namespace

int answer(const ContainerCommand& command, const std::function<Result<Report>(OpenFiles&)>& body) {
  std::vector<int> inherited = sandbox::open_descriptors();
  std::erase(inherited, command.keep);
  const std::string no_filter = command.container.isolated ? sandbox::why_no_call_filter() : std::string();
  if (!no_filter.empty())
    return finish(command.name, command.as_json, Status(Code::Resource, 6013, "--isolated: " + no_filter));
  auto files = open_files(command);
  if (!files) return finish(command.name, command.as_json, files.status());
  return files->isolated ? answer_isolated(command, *files, inherited, body) : answer_here(command, *files, body);
}

}  // namespace mlc::cli
