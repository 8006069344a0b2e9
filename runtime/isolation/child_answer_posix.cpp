#include "runtime/isolation/child_answer.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>

#include "base/checked.h"
#include "base/sanitized.h"
#include "runtime/io/limits.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

// Beyond the memory that the host has to give: what the process itself needs. Plans have a tighter budget of their own.
constexpr uint64_t kMemoryOfTheProcess = uint64_t{256} << 20;
// What an untrusted file may take beside runs: what reads it, and answers as they are shown.
constexpr uint64_t kUntrustedBeside = uint64_t{128} << 20, kUntrustedSeconds = 10;

#ifdef MLC_SANITIZED
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

// CPU time of the process, so that it ends even where the limits of the library do not hold: that of the runs, and for all
// else a fixed one that grows with the files. 0: none.
uint64_t cpu_seconds(const ChildWork& work) {
  constexpr uint64_t kBesideRuns = 60, kBytesPerSecond = uint64_t{64} << 20;
  if (!work.run_seconds) return 0;
  const uint64_t bytes = checked_add(work.container_bytes, work.input_bytes).value_or(UINT64_MAX);
  const uint64_t beside = (work.native_code || kSlow ? kBesideRuns : kUntrustedSeconds) + bytes / kBytesPerSecond;
  return checked_add(beside, *work.run_seconds).value_or(UINT32_MAX);
}

// Private memory of the process, so that it ends even where something is not counted that a file asks for. Of an untrusted
// file: its sessions, what is decoded, the inputs (read, decoded and copied) and the stacks of the workers; else what the host has
// free.
uint64_t memory_bytes(const ChildWork& work) {
  const uint64_t free = probe::host().memory.effective_free_bytes;
  const uint64_t most = free > 0 ? free + kMemoryOfTheProcess : UINT64_MAX;
  if (work.native_code || work.is_memory_unlimited) return free > 0 ? most : 0;
  pthread_attr_t defaults;
  size_t stack = 0;
  if (pthread_getattr_default_np(&defaults) == 0) {
    pthread_attr_getstacksize(&defaults, &stack);
    pthread_attr_destroy(&defaults);
  }
  io::MemoryNeed need{kUntrustedBeside};
  need.add(work.sessions, work.memory_limit != 0 ? work.memory_limit : kUntrustedMemory);
  need.add(work.memory_limit != 0 ? work.memory_limit : io::kDefaultDecodeMemory);
  need.add(work.input_bytes, 3);
  need.add(work.threads + 1, stack);
  return std::min(most, need.bytes);
}

Status give_up_privileges(const ChildCommand& command) {
  if (command.begin) command.begin();
  std::set_new_handler(nullptr);  // a lack of memory is an exception here
  for (const int signal : {SIGBUS, SIGILL, SIGSEGV}) std::signal(signal, SIG_DFL);  // the parent tells them
  // The probe reads /proc and tries pages of code; it looks at nothing of the container.
  probe::host();
  MLC_ASSIGN(const ChildWork work, command.work());
  if (!work.keeps_stdin) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > 2) close(nothing);
  }
  MLC_ASSIGN(const sandbox::Confinement confinement, sandbox::confine(limits_of(work)));
  if (!confinement.no_call_filter.empty()) note("warning: system calls are not filtered: " + confinement.no_call_filter);
  return ok();
}

int print(const ChildCommand& command, const Result<Report>& report) {
  return command.print ? command.print(report) : finish(command.name, command.as_json, report);
}

int answer_confined(const ChildCommand& command, bool says_isolated, const Answer& answer) {
  if (Status confined = give_up_privileges(command); !confined.ok())
    return print(command, std::move(confined));
  Result<Report> report = reported(command.file, command.help, answer);
  if (report.ok() && says_isolated) report->json["isolated"] = true;
  if (command.print) return command.print(report);
  try {
    return print(command, report);
  } catch (const std::bad_alloc&) {  // the text of such an answer is made whole before any of it is printed
    report = no_memory_for(command.file, command.help);
  }
  return print(command, report);
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

}  // namespace

sandbox::Limits limits_of(const ChildWork& work) {
  return {.native_code = work.native_code, .memory_bytes = memory_bytes(work), .cpu_seconds = cpu_seconds(work)};
}

int answer_in_child(const ChildCommand& command, bool says_isolated, const Answer& answer, const std::function<void()>& ended) {
  const auto end = sandbox::run_child(command.inherited, [&] { return answer_confined(command, says_isolated, answer); });
  if (!end) return print(command, end.status());
  switch (end->signal) {
    case 0: return end->exit_code;
    case SIGINT: case SIGTERM: case SIGHUP: case SIGQUIT: case SIGPIPE:
      if (ended) ended();
      end_by_signal(end->signal);
      break;
    default: break;
  }
  return print(command, status_of_signal(end->signal, command.file));
}

}  // namespace mlc::cli
