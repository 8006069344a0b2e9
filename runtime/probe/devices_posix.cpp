// The process that asks drivers. Started by posix_spawn, never forked: this one may be large and have threads.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/compose.h"
#include "base/on_exit.h"
#include "base/system/clock.h"
#include "runtime/probe/devices.h"

extern char** environ;

namespace mlc::probe {
namespace {

// Everything that comes, up to what a text may have and a little more. False: the deadline passed.
bool read_all(int from, uint64_t end, std::string& out) {
  std::array<char, 4096> piece;
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= end) return false;
    pollfd waits{from, POLLIN, 0};
    const int ready = ::poll(&waits, 1, static_cast<int>(std::min<uint64_t>((end - now) / 1'000'000 + 1, 1000)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    out.append(piece.data(), static_cast<size_t>(got));
    if (out.size() > kMostDeviceText || out.ends_with("\nend\n")) return true;
  }
}

// How the process ended. One that has closed its output, or says too much, may still hang: then it is killed.
int wait_until(pid_t child, uint64_t end, bool& killed) {
  int how = 0;
  for (;;) {
    if (killed) ::kill(child, SIGKILL);
    const pid_t ended = ::waitpid(child, &how, killed ? 0 : WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return how;
    if (now_ns() >= end) killed = true;
    if (!killed) ::poll(nullptr, 0, 1);
  }
}

constexpr std::string_view kNodes[] = {"nvidia", "dxg", "mali", "kgsl", "pvr", "powervr"};  // a name begins so
constexpr std::string_view kDriNodes[] = {"renderD", "card"};

bool has_node(const char* folder, std::span<const std::string_view> names) {
  DIR* d = ::opendir(folder);
  if (!d) return false;
  const OnExit close([&] { ::closedir(d); });
  while (const dirent* entry = ::readdir(d))
    if (std::any_of(names.begin(), names.end(), [&](std::string_view n) { return std::string_view(entry->d_name).starts_with(n); })) return true;
  return false;
}

}  // namespace

bool may_have_graphics() {
  for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"})
    if (::getenv(variable)) return true;
  return has_node("/dev/dri", kDriNodes) || has_node("/dev", kNodes);
}

Result<std::vector<device::Info>> ask_child(const std::string& program, const char* api, uint64_t deadline_ns) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status(Code::NotFound, "no pipe: {}", std::strerror(errno));
  const OnExit close_read([&] { ::close(ends[0]); });
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const char* const arguments[] = {"mlrun", "probe-child", api, nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, const_cast<char* const*>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) return Status(Code::NotFound, "{} cannot be started: {}", program, std::strerror(error));

  std::string text;
  const uint64_t end = now_ns() + deadline_ns;
  const bool in_time = read_all(ends[0], end, text);
  const bool whole = in_time && text.ends_with("end\n");  // a driver may hang at its own end: not waited for
  bool killed = !in_time || whole || text.size() > kMostDeviceText;
  const int how = wait_until(child, end, killed);
  if (!in_time) return Status(Code::Resource, "the probe of {} timed out after {} s", api, deadline_ns / 1'000'000'000);
  if (!whole && !killed && WIFSIGNALED(how)) return Status(Code::Resource, "the probe of {} crashed with signal {}", api, WTERMSIG(how));
  if (!whole) {
    // What it says instead of devices is why there are none.
    const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
    std::string why(line.substr(0, 200));
    std::replace_if(why.begin(), why.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    return Status(Code::NotFound, why.empty() ? compose("the probe of {} ended with {}", api, WEXITSTATUS(how)) : why);
  }
  return parse_device_text(text);
}

}  // namespace mlc::probe
