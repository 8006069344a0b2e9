#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "runtime/sandbox/sandbox.h"

namespace mlc::sandbox {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
volatile pid_t child_of_this_process = 0;

// The terminal sends its signals to every process of the group, the child included.
void pass_on(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  const bool from_terminal = info->si_code == SI_KERNEL && (signal == SIGINT || signal == SIGQUIT);
  if (child_of_this_process > 0 && !from_terminal) kill(child_of_this_process, signal);
  errno = saved;
}

// The signals of kPassedOn wait from here to `end`, so that none falls between fork and handlers.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t set;
    sigemptyset(&set);
    for (const int s : kPassedOn) sigaddset(&set, s);
    sigprocmask(SIG_BLOCK, &set, &before_);
  }
  SignalsWait(const SignalsWait&) = delete;
  void end() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

class PassingOn {
 public:
  explicit PassingOn(pid_t child) {
    child_of_this_process = child;
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (size_t i = 0; i < std::size(kPassedOn); ++i) sigaction(kPassedOn[i], &action, &before_[i]);
  }
  ~PassingOn() {
    child_of_this_process = 0;
    for (size_t i = 0; i < std::size(kPassedOn); ++i) sigaction(kPassedOn[i], &before_[i], nullptr);
  }
  PassingOn(const PassingOn&) = delete;

 private:
  struct sigaction before_[std::size(kPassedOn)];
};

[[noreturn]] void be_the_child(pid_t parent, const std::vector<int>& close_first, const std::function<int()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(static_cast<int>(Code::Internal));  // it ended before the line above
  for (const int fd : close_first) close(fd);
  const int code = work();
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

std::string why_no_process() { return {}; }

std::vector<int> open_descriptors() {
  std::vector<int> open;
  DIR* const folder = opendir("/proc/self/fd");
  if (!folder) {  // no /proc
    for (int fd = 3; fd < 1024; ++fd)
      if (fcntl(fd, F_GETFD) >= 0) open.push_back(fd);
    return open;
  }
  const int own = dirfd(folder);
  while (const dirent* entry = readdir(folder)) {
    int fd = -1;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, fd).ptr == end && fd > 2 && fd != own) open.push_back(fd);
  }
  closedir(folder);
  std::sort(open.begin(), open.end());
  return open;
}

Result<ChildEnd> run_child(const std::vector<int>& close_first, const std::function<int()>& work) {
  std::fflush(nullptr);  // or both processes would write what is left in the buffers
  const pid_t parent = getpid();
  SignalsWait waiting;
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    waiting.end();
    return Status(Code::Resource, "no process for the file: {}", std::strerror(error));
  }
  if (child == 0) {
    waiting.end();
    be_the_child(parent, close_first, work);
  }
  const PassingOn passing(child);
  waiting.end();
  int state = 0;
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR) return Status(Code::Internal, "the child's end is not known: {}", std::strerror(errno));
  ChildEnd end;
  if (WIFSIGNALED(state)) end.signal = WTERMSIG(state);
  else end.exit_code = WEXITSTATUS(state);
  return end;
}

}  // namespace mlc::sandbox
