#include "tests/conformance/run/process_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

namespace mlc::conformance {
namespace {

using Clock = std::chrono::steady_clock;

bool write_all(int fd, const void* data, size_t size) {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, size -= static_cast<size_t>(n);
  }
  return true;
}

bool read_item(int fd, uint64_t& item) {
  size_t have = 0;
  while (have < sizeof item) {
    const ssize_t n = read(fd, reinterpret_cast<char*>(&item) + have, sizeof item - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    have += static_cast<size_t>(n);
  }
  return true;
}

// Seconds of a processor that the process has had; nothing where it is gone. What it starts itself counts there.
std::optional<double> processor_seconds(pid_t pid) {
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return std::nullopt;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

struct Child {
  pid_t pid = 0;
  int to = -1, from = -1;
  bool busy = false;
  uint64_t item = 0;
  Clock::time_point given;
  double used = 0;      // processor_seconds when the item was given
  std::string pending;  // of a line that has not ended
};

class Pool {
 public:
  explicit Pool(PoolWork& work) : work_(work) {}

  bool run() {
    signal(SIGPIPE, SIG_IGN);  // a dead child is seen by its pipe
    children_.resize(std::max(1u, work_.processes));
    for (Child& child : children_)
      if (!start(child)) return false;
    for (;;) {
      bool any = false;
      for (Child& child : children_) {
        if (!child.busy && !give(child)) return false;
        any = any || child.busy;
      }
      if (!any) break;
      if (!wait()) return false;
    }
    for (Child& child : children_) stop(child);
    return true;
  }

 private:
  bool start(Child& child) {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0) return false;
    if (pipe2(up, O_CLOEXEC) != 0) return close(down[0]), close(down[1]), false;
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const Child& other : children_)
        if (other.to >= 0) close(other.to), close(other.from);
      close(down[1]), close(up[0]);
      serve(down[0], up[1]);
    }
    close(down[0]), close(up[1]);
    child = {pid, down[1], up[0], false, 0, {}, {}};
    return true;
  }

  [[noreturn]] void serve(int in, int out) {
    for (uint64_t item = 0; read_item(in, item);) {
      work_.work(item, [&](const std::string& line) {
        std::string text = "+" + line;
        for (char& c : text)
          if (c == '\n') c = ' ';
        text += '\n';
        if (!write_all(out, text.data(), text.size())) _exit(1);
      });
      if (!write_all(out, ".\n", 2)) break;
    }
    std::fflush(nullptr);
    _exit(0);
  }

  // Hands out the next item, if there is one.
  bool give(Child& child) {
    if (next_ == work_.items.size()) return true;
    if (child.pid == 0 && !start(child)) return false;
    child.item = work_.items[next_++];
    child.busy = true;
    child.given = Clock::now();
    child.used = processor_seconds(child.pid).value_or(0);
    write_all(child.to, &child.item, sizeof child.item);  // a child that is gone is seen by `wait`
    return true;
  }

  bool wait() {
    std::vector<pollfd> fds;
    std::vector<Child*> whose;
    for (Child& child : children_)
      if (child.busy) fds.push_back({child.from, POLLIN, 0}), whose.push_back(&child);
    const int ready = poll(fds.data(), fds.size(), 200);
    if (ready < 0 && errno != EINTR) return false;
    for (size_t k = 0; k < fds.size(); ++k) {
      if (ready > 0 && fds[k].revents) read_lines(*whose[k]);
      if (whose[k]->busy && is_late(*whose[k])) {
        char why[64];
        std::snprintf(why, sizeof why, "took longer than %.0f s", work_.seconds_per_item);
        lose(*whose[k], why);
      }
    }
    return true;
  }

  // Seconds of a processor, so that a busy machine makes no item fail; ten times as long for one that waits, or that runs in a process of its own.
  bool is_late(const Child& child) const {
    const double limit = work_.seconds_per_item, passed = std::chrono::duration<double>(Clock::now() - child.given).count();
    if (passed <= limit) return false;
    const auto used = processor_seconds(child.pid);
    return passed > 10 * limit || (used && *used - child.used > limit);
  }

  void read_lines(Child& child) {
    char bytes[65536];
    const ssize_t n = read(child.from, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) return lose(child, "");
    child.pending.append(bytes, static_cast<size_t>(n));
    for (size_t end; (end = child.pending.find('\n')) != std::string::npos; child.pending.erase(0, end + 1)) {
      if (child.pending[0] == '.') child.busy = false;
      else work_.line(child.item, child.pending.substr(1, end - 1));
    }
  }

  // `why` empty: it ended by itself.
  void lose(Child& child, std::string why) {
    kill(child.pid, SIGKILL);
    const int status = stop(child);
    if (why.empty()) why = WIFSIGNALED(status) ? std::string("crashed: ") + strsignal(WTERMSIG(status)) : "the process ended with code " + std::to_string(WEXITSTATUS(status));
    std::vector<uint64_t> more;
    work_.lost(child.item, why, more);
    work_.items.insert(work_.items.end(), more.begin(), more.end());
    child = {};
  }

  static int stop(Child& child) {
    if (child.pid == 0) return 0;
    close(child.to), close(child.from);
    int status = 0;
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
  }

  PoolWork& work_;
  std::vector<Child> children_;
  size_t next_ = 0;
};

}  // namespace

bool run_pool(PoolWork& work) { return Pool(work).run(); }

}  // namespace mlc::conformance
