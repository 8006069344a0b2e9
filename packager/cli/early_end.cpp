#include "packager/cli/early_end.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "base/cli/report.h"
#include "base/files/unfinished.h"
#include "base/status.h"
#include "targets/target.h"

namespace mlc::cli {
namespace {

constexpr int kEnds[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU};
constexpr int kCrashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};

std::atomic<pid_t> child = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free);
std::atomic<bool> line_shown = false;
bool is_child = false;
std::string out_of_memory_text;  // made while there is memory
int out_of_memory_stream = STDERR_FILENO;
bool as_json = false;
std::string command = "usage";

void write_all(int stream, const char* text, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(stream, text, size);
    if (n <= 0) return;
    text += n;
    size -= static_cast<size_t>(n);
  }
}

// Only what a signal handler may do.
void clean_up() {
  if (const pid_t pid = child.exchange(0); pid > 0) ::kill(pid, SIGKILL);
  remove_unfinished();
  if (line_shown) write_all(STDERR_FILENO, "\r\033[K", 4);
}

void on_signal(int number) {
  clean_up();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// The first thread that gets here ends the process; others wait for that.
void only_once() {
  static std::atomic<bool> ending = false;
  while (ending.exchange(true)) ::pause();
}

[[noreturn]] void out_of_memory() {
  only_once();
  if (!is_child) {
    clean_up();
    write_all(out_of_memory_stream, out_of_memory_text.data(), out_of_memory_text.size());
  }
  ::_exit(static_cast<int>(Code::Resource));
}

[[noreturn]] void compiler_failed(const Status& why) {
  only_once();
  clean_up();
  const int code = finish(command, as_json, why);
  ::_exit(code);
}

void prepare_texts(int argc, const char* const* argv) {
  for (int k = 1; k < argc; ++k) as_json = as_json || std::strcmp(argv[k], "--json") == 0;
  if (argc > 1) command = argv[1];
  const Status status = Status(Code::Resource, "out of memory").hint(command == "build" ? "fewer targets at a time (--target), or more memory" : "more memory (ulimit -v tells the limit)");
  out_of_memory_text = as_json ? failure_json(command, status) : status.text() + "\n";
  if (as_json) out_of_memory_stream = STDOUT_FILENO;
}

// A stack of its own: the end of the other one may be what is wrong.
void use_other_stack() {
  constexpr size_t kSize = 64 << 10;
  void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kSize;
  ::sigaltstack(&stack, nullptr);
}

}  // namespace

void handle_early_ends(int argc, const char* const* argv) {
  prepare_texts(argc, argv);
  use_other_stack();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  const auto handle = [&](int number) {
    struct sigaction before {};
    // What is ignored stays so (nohup); what a sanitizer handles stays with it.
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL && !(before.sa_flags & SA_SIGINFO)) ::sigaction(number, &action, nullptr);
  };
  for (const int number : kEnds) handle(number);
  for (const int number : kCrashes) handle(number);
  ::signal(SIGXFSZ, SIG_IGN);  // write says that the file may not grow
  std::set_new_handler(out_of_memory);
  targets::on_failure(out_of_memory, compiler_failed);
}

void line_is_shown(bool shown) { line_shown = shown; }

void ends_with_us(pid_t pid) { child = pid; }

void end_as_child() {
  is_child = true;
  child = 0;
  forget_unfinished();
  for (const int number : kEnds) ::signal(number, SIG_DFL);
  for (const int number : kCrashes) ::signal(number, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace mlc::cli
