#include "targets/ptx/ptxas.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/compose.h"
#include "base/system/clock.h"

namespace mlc::targets::ptx {
namespace {

constexpr uint64_t kMostOutput = uint64_t{256} << 20;

// A file without a name.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("mlpack-ptxas", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  int fd() const { return fd_; }

  bool write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t done = ::write(fd_, text.data(), text.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return false;
      text.remove_prefix(static_cast<size_t>(done));
    }
    return true;
  }
  template <class Bytes>
  bool read(Bytes& out) const {
    const off_t size = ::lseek(fd_, 0, SEEK_END);
    if (size < 0 || static_cast<uint64_t>(size) > kMostOutput) return false;
    out.resize(static_cast<size_t>(size));
    for (size_t at = 0; at < out.size();) {
      const ssize_t done = ::pread(fd_, out.data() + at, out.size() - at, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return false;
      at += static_cast<size_t>(done);
    }
    return true;
  }

 private:
  const int fd_;
};

// How it ended; none: it was killed, for it took too long.
std::optional<int> wait_for(pid_t child, uint64_t end) {
  for (int how = 0;;) {
    const pid_t ended = ::waitpid(child, &how, WNOHANG);
    if (ended == child) return how;
    if (ended < 0 && errno != EINTR) return std::nullopt;
    if (now_ns() < end) {
      ::poll(nullptr, 0, 1);
      continue;
    }
    ::kill(child, SIGKILL);
    while (::waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    return std::nullopt;
  }
}

// The number before `unit` in a line: 17 of "Used 17 registers".
uint64_t number_before(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == line.npos) return 0;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return at - begin > 18 ? 0 : std::strtoull(std::string(line.substr(begin, at - begin)).c_str(), nullptr, 10);
}

std::string first_line(std::string_view log) {
  std::string line(log.substr(0, std::min<size_t>(log.find('\n'), 300)));
  std::replace_if(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return line;
}

}  // namespace

std::vector<Assembled::Kernel> kernels_in_log(std::string_view log) {
  std::vector<Assembled::Kernel> out;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    constexpr std::string_view kEntry = "Compiling entry function '";
    if (const size_t at = line.find(kEntry); at != line.npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      out.push_back({std::string(rest.substr(0, rest.find('\''))), 0, 0, 0});
    } else if (!out.empty()) {
      out.back().registers = std::max(out.back().registers, number_before(line, " registers"));
      out.back().stack_bytes = std::max(out.back().stack_bytes, number_before(line, " bytes stack frame"));
      out.back().spilled_bytes = std::max(out.back().spilled_bytes, number_before(line, " bytes spill stores"));
    }
  }
  return out;
}

Result<Ptxas> Ptxas::find(std::string_view folders) {
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string file = std::string(folders.substr(0, end)) + "/ptxas";
    folders.remove_prefix(std::min(end + 1, folders.size()));
    if (file.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return Ptxas(file);
  }
  return Status(Code::NotFound, "no ptxas in PATH");
}

Result<Assembled> Ptxas::assemble(std::string_view text, uint32_t architecture, bool is_specific, uint64_t deadline_ns) const {
  const MemoryFile in, out, log;
  if (in.fd() < 0 || out.fd() < 0 || log.fd() < 0 || !in.write(text)) return Status(Code::Resource, "no memory for what {} reads", path_);
  // Descriptors of the child: 3 is the text, 4 the cubin.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, log.fd(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, log.fd(), 2);
  const int high_in = ::fcntl(in.fd(), F_DUPFD_CLOEXEC, 10), high_out = ::fcntl(out.fd(), F_DUPFD_CLOEXEC, 10);
  ::posix_spawn_file_actions_adddup2(&actions, high_in, 3);
  ::posix_spawn_file_actions_adddup2(&actions, high_out, 4);
  const std::string arch = compose("-arch=sm_{}{}", architecture, is_specific ? "a" : "");
  const char* const arguments[] = {"ptxas", "-v", arch.c_str(), "/proc/self/fd/3", "-o", "/proc/self/fd/4", nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, path_.c_str(), &actions, nullptr, const_cast<char* const*>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (high_in >= 0) ::close(high_in);
  if (high_out >= 0) ::close(high_out);
  if (error != 0) return Status(Code::NotFound, "{} cannot be started: {}", path_, std::strerror(error));
  const std::optional<int> how = wait_for(child, now_ns() + deadline_ns);
  std::string said;
  if (!how) return Status(Code::Resource, "{} did not end within {} s", path_, deadline_ns / 1'000'000'000);
  if (!log.read(said)) return Status(Code::Resource, "{} says too much", path_);
  Assembled done;
  if (!WIFEXITED(*how) || WEXITSTATUS(*how) != 0) {
    const bool too_old = said.find("is not defined for option 'gpu-name'") != said.npos || said.find("Unsupported .version") != said.npos;
    return Status(too_old ? Code::NotFound : Code::Internal, "{} for sm_{}: {}", path_, architecture, first_line(said));
  }
  if (!out.read(done.cubin) || done.cubin.empty()) return Status(Code::Internal, "{} for sm_{} wrote no cubin", path_, architecture);
  done.kernels = kernels_in_log(said);
  return done;
}

}  // namespace mlc::targets::ptx
