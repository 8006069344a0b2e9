#include "runtime/cli/crash.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>

#include "base/cli/report.h"
#include "runtime/cli/tune/remember.h"
#include "runtime/isolation/child_answer.h"

namespace mlc::cli {
namespace {

constexpr int kCrashes[] = {SIGBUS, SIGILL, SIGSEGV};
constexpr int kExitOfSignals = 128;  // what a shell adds

const char* volatile running_file = nullptr;
const char* volatile running_variant = nullptr;

// With --json: the whole answer for each of kCrashes, made while that is allowed.
std::string answers[std::size(kCrashes)];
std::string_view command_with_json;

void say(const char* text) {
  if (text) (void)!write(STDERR_FILENO, text, std::strlen(text));
}

FaultLines faults;  // of what is running
const std::string no_fault;

const std::string& fault_of(int signal) { return signal == SIGILL ? faults.illegal_instruction : signal == SIGSEGV ? faults.memory_fault : no_fault; }

// Only functions that are safe in a signal handler.
void remember_fault(const std::string& line) {
  if (faults.file.empty() || line.empty()) return;
  const int fd = open(faults.file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  (void)!write(fd, line.data(), line.size());
  close(fd);
}

const char* kHowToRunWithout = "--variant portable runs without native code";
const char* kFromNowOn = ", and so do runs from now on until mlrun tune --forget";

// Only functions that are safe in a signal handler.
void on_fault(int signal) {
  remember_fault(fault_of(signal));
  for (size_t i = 0; i < std::size(kCrashes); ++i) {
    if (kCrashes[i] != signal || answers[i].empty()) continue;
    (void)!write(STDOUT_FILENO, answers[i].data(), answers[i].size());
    if (signal == SIGBUS) _exit(static_cast<int>(Code::Malformed));
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
  if (signal == SIGBUS) {
    say("error[E6001]: ");
    say(running_file ? running_file : "a mapped file");
    say(" changed while it was mapped\n  stopped, no result written\n  help: ");
    say(kHowToReplace);
    say("\n");
    _exit(static_cast<int>(Code::Malformed));
  }
  say(signal == SIGILL ? "error[E6002]: illegal instruction" : "error[E6003]: memory fault");
  say(" while running variant ");
  say(running_variant ? running_variant : "(none yet)");
  say(" of ");
  say(running_file ? running_file : "(no file)");
  say("\n  help: ");
  say(kHowToRunWithout);
  if (!fault_of(signal).empty()) say(kFromNowOn);
  say("\n");
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

void install_crash_handlers() {
  // A stack of its own: the fault may be the end of the other one. Vector state makes signal frames large.
  constexpr unsigned long kAtMinSigStackSize = 51;
  const size_t size = std::max<size_t>(64 << 10, 4 * getauxval(kAtMinSigStackSize));
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = size;
  if (sigaltstack(&stack, nullptr) != 0) return;
  struct sigaction action {};
  action.sa_handler = on_fault;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int signal : kCrashes) sigaction(signal, &action, nullptr);
}

void crash_with_json(std::string_view command) { command_with_json = command; }

void say_what_crashed(const OpenModel& model, const char* variant) {
  const char* const file = model.info.file;
  running_file = file;
  if (running_variant == nullptr || std::string_view(running_variant) != variant) faults = fault_lines(model, variant);
  running_variant = variant;
  if (command_with_json.empty()) return;
  for (size_t i = 0; i < std::size(kCrashes); ++i) {
    const char* what = kCrashes[i] == SIGILL ? "illegal instruction" : "memory fault";
    const Status status = kCrashes[i] == SIGBUS ? changed_while_mapped(file)
                                                : Status(Code::Internal, kCrashes[i] == SIGILL ? uint16_t{6002} : uint16_t{6003},
                                                         "{} while running variant {} of {}", what, variant, file)
                                                      .hint("{}", kHowToRunWithout);
    Json json = first_fields(command_with_json, status);
    if (kCrashes[i] != SIGBUS) json["exit_code"] = kExitOfSignals + kCrashes[i];
    answers[i] = line_of(json);
  }
}

}  // namespace mlc::cli
