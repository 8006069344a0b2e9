// From inside: a child gives its privileges up and tries each thing that it may not do, and each that it may.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/sanitized.h"
#include "runtime/memory/code_memory.h"
#include "runtime/sandbox/landlock.h"
#include "runtime/sandbox/sandbox.h"
#include "runtime/threads/team.h"

using namespace mlc;
using namespace mlc::sandbox;

namespace {

#ifdef MLC_SANITIZED
constexpr bool kLimitsOfMemory = false;  // they are ignored under sanitizers
#else
constexpr bool kLimitsOfMemory = true;
#endif

// What a failed attempt returns: its errno. 0: it worked.
int failed() { return errno; }
int result_of(long value) { return value < 0 ? failed() : 0; }

constexpr int kNotConfined = 200;

ChildEnd confined(const std::function<int()>& work, const Limits& limits = {}) {
  const auto end = run_child({}, [&] {
    const auto confinement = confine(limits);
    if (!confinement.ok() || !confinement->no_call_filter.empty()) return kNotConfined;
    return work();
  });
  REQUIRE(end.ok());
  REQUIRE(end->exit_code != kNotConfined);
  return *end;
}

bool no_filters_here() {
  const std::string why = why_no_call_filter();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

// A file in a folder of its own.
struct Scratch {
  std::string folder, path;
  int fd = -1;
  Scratch() {
    char name[] = "/tmp/mlc-sandbox-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/file";
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(write(fd, "content", 7) == 7);
  }
  ~Scratch() {
    close(fd);
    unlink(path.c_str());
    rmdir(folder.c_str());
  }
};

void* nothing(void*) { return nullptr; }

}  // namespace

TEST_CASE("a confined process cannot open, change or remove a file, whichever way it asks") {
  if (no_filters_here()) return;
  const Scratch s;
  const auto refused = [&](const char* what, const std::function<long()>& attempt) {
    CAPTURE(what);
    const ChildEnd end = confined([&] { return result_of(attempt()); });
    CHECK(end.signal == 0);
    CHECK(end.exit_code == EPERM);
  };
  const char* path = s.path.c_str();
  refused("open for reading", [&] { return open(path, O_RDONLY); });
  refused("open for writing", [&] { return open(path, O_WRONLY); });
  refused("create", [&] { return open((s.folder + "/new").c_str(), O_WRONLY | O_CREAT, 0600); });
  refused("the raw call", [&] { return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0); });
  refused("openat2", [&] {
    struct { uint64_t flags, mode, resolve; } how = {};
    return syscall(437, AT_FDCWD, path, &how, sizeof how);
  });
  refused("a file that everybody may read", [] { return open("/etc/passwd", O_RDONLY); });
  refused("the open file by its other name", [&] { return open(("/proc/self/fd/" + std::to_string(s.fd)).c_str(), O_RDWR); });
  refused("the state of a file by its path", [&] {
    uint64_t state[32] = {};
    return syscall(SYS_statx, AT_FDCWD, path, 0, 0x7ff, state);
  });
  refused("unlink", [&] { return unlink(path); });
  refused("rename", [&] { return rename(path, (s.path + "2").c_str()); });
  refused("link", [&] { return link(path, (s.path + "2").c_str()); });
  refused("symlink", [&] { return symlink(path, (s.path + "2").c_str()); });
  refused("mkdir", [&] { return mkdir((s.folder + "/d").c_str(), 0700); });
  refused("chmod", [&] { return chmod(path, 0777); });
  refused("truncate", [&] { return truncate(path, 0); });
  refused("ftruncate of an open file", [&] { return ftruncate(s.fd, 0); });
  refused("a file of memory", [] { return syscall(SYS_memfd_create, "x", 0); });
  refused("chdir", [] { return chdir("/"); });
  char content[8] = {};
  CHECK(pread(s.fd, content, 8, 0) == 7);
  CHECK(std::string(content) == "content");
}

TEST_CASE("a confined process cannot make processes, look into them or end them") {
  if (no_filters_here()) return;
  const auto refused = [&](const char* what, const std::function<long()>& attempt) {
    CAPTURE(what);
    const ChildEnd end = confined([&] { return result_of(attempt()); });
    CHECK(end.signal == 0);
    CHECK(end.exit_code == EPERM);
  };
  refused("fork", [] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); });
  refused("a thread in namespaces of its own", [] {
    return syscall(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWNET, 0, 0, 0, 0);
  });
  refused("kill the parent", [] { return kill(getppid(), SIGTERM); });
  refused("kill itself by pid", [] { return kill(getpid(), 0); });
  refused("signal a thread of the parent", [] { return syscall(SYS_tgkill, 1, 1, 0); });
  refused("signal a thread without saying of which process", [] { return syscall(SYS_tkill, 1, 0); });
  refused("affinity of another process", [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return sched_setaffinity(1, sizeof set, &set);
  });
  refused("limits of another process", [] {
    rlimit limit{};
    return prlimit(1, RLIMIT_NOFILE, nullptr, &limit);
  });
  refused("raise its own limits", [] {
    const rlimit limit{1024, 1024};
    return setrlimit(RLIMIT_NOFILE, &limit);
  });
  refused("give way to debuggers", [] { return syscall(SYS_prctl, 4 /* PR_SET_DUMPABLE */, 1, 0, 0, 0); });
  refused("type into the terminal", [] { return ioctl(0, TIOCSTI, "x"); });
  refused("another owner of its signals", [] { return fcntl(1, F_SETOWN, 1); });
}

TEST_CASE("what only an attack tries ends the process") {
  if (no_filters_here()) return;
  const auto ended = [&](const char* what, const std::function<long()>& attempt) {
    CAPTURE(what);
    for (const bool native : {false, true}) CHECK(confined([&] { return result_of(attempt()); }, {.native_code = native}).signal == SIGSYS);
  };
  ended("exec", [] { return execl("/bin/true", "true", nullptr); });
  ended("execveat", [] { return syscall(SYS_execveat, 0, "", nullptr, nullptr, AT_EMPTY_PATH); });
  ended("trace", [] { return syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, getppid(), 0, 0); });
  ended("read another process", [] { return syscall(SYS_process_vm_readv, getppid(), nullptr, 0, nullptr, 0, 0); });
  ended("write another process", [] { return syscall(SYS_process_vm_writev, getppid(), nullptr, 0, nullptr, 0, 0); });
  ended("a TCP socket", [] { return syscall(SYS_socket, 2, 1, 0); });
  ended("a local socket", [] { return syscall(SYS_socket, 1, 1, 0); });
  ended("io_uring", [] { return syscall(SYS_io_uring_setup, 1, nullptr); });
}

TEST_CASE("new code in memory is for trusted files only, and never writable") {
  if (no_filters_here()) return;
  const auto map = [](int protection) {
    return result_of(mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
  };
  const auto protect = [](int protection) {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result_of(mprotect(page, 4096, protection));
  };
  for (const bool native : {false, true}) {
    CAPTURE(native);
    const Limits limits{.native_code = native};
    CHECK(confined([&] { return map(PROT_READ | PROT_EXEC); }, limits).exit_code == (native ? 0 : EPERM));
    CHECK(confined([&] { return protect(PROT_READ | PROT_EXEC); }, limits).exit_code == (native ? 0 : EPERM));
    CHECK(confined([&] { return map(PROT_READ | PROT_WRITE | PROT_EXEC); }, limits).exit_code == EPERM);
    CHECK(confined([&] { return protect(PROT_READ | PROT_WRITE | PROT_EXEC); }, limits).exit_code == EPERM);
    CHECK(confined([&] { return result_of(syscall(SYS_pkey_mprotect, nullptr, 0, PROT_EXEC, -1)); }, limits).exit_code == EPERM);
    // Both ways in which this project makes pages of code.
    const std::byte code[64] = {};
    for (const CodePages strategy : {CodePages::Anonymous, CodePages::SealedFd}) {
      const auto place = [&] {
        auto memory = CodeMemory::reserve(4096, 4096);
        return memory.ok() && memory->place_code(0, code, 64, strategy, false).ok() ? 0 : 1;
      };
      CHECK(confined(place, limits).exit_code == (native ? 0 : 1));
    }
  }
}

TEST_CASE("what the runtime needs works: open files, memory, threads, time, output") {
  if (no_filters_here()) return;
  const Scratch s;
  const ChildEnd end = confined([&] {
    char content[8] = {};
    struct stat info {};
    if (pread(s.fd, content, 7, 0) != 7 || std::string(content) != "content") return 1;
    if (fstat(s.fd, &info) != 0 || info.st_size != 7) return 2;
    for (const int flags : {AT_EMPTY_PATH, AT_EMPTY_PATH | AT_NO_AUTOMOUNT}) {  // fstat on LoongArch; musl and glibc 2.39 set both
      uint64_t state[32] = {};
      if (syscall(SYS_statx, s.fd, "", flags, 0x7ff, state) != 0 || state[5] != 7) return 2;
    }
    const void* mapped = mmap(nullptr, 7, PROT_READ, MAP_SHARED, s.fd, 0);
    if (mapped == MAP_FAILED || std::memcmp(mapped, "content", 7) != 0) return 3;
    if (write(s.fd, "!", 1) != 1 || fsync(s.fd) != 0) return 4;
    std::string large(64 << 20, 'x');
    large.resize(96 << 20);
    auto pool = WorkerPool::create({.workers = 4, .cpus = {0}, .seats = {0, 0, 0, 0}, .pin = true});
    if (!pool) return 5;
    Team team({**pool, 4, /*pin_caller=*/true});
    WorkMeter unlimited;
    if (!team.gather(unlimited).ok()) return 5;
    std::atomic<unsigned> ran = 0;
    team.run([](void* context, unsigned) { ++*static_cast<std::atomic<unsigned>*>(context); }, &ran);
    team.dismiss();
    if (ran != 4) return 6;
    pthread_t thread;
    if (pthread_create(&thread, nullptr, nothing, nullptr) != 0 || pthread_join(thread, nullptr) != 0) return 7;
    timespec now{};
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return 8;
    FILE* out = fdopen(s.fd, "r+");  // as a tool prints
    if (!out || std::fprintf(out, "%s", std::string(10'000, 'y').c_str()) != 10'000 || std::fflush(out) != 0) return 9;
    rusage usage{};
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 10;
    return 42;
  });
  CHECK(end.signal == 0);
  CHECK(end.exit_code == 42);
}

TEST_CASE("abort, faults and exit codes are told to the parent") {
  if (no_filters_here()) return;
  CHECK(confined([] { return 7; }).exit_code == 7);
  CHECK(confined([]() -> int { signal(SIGABRT, SIG_DFL); abort(); }).signal == SIGABRT);
  CHECK(confined([] { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); return 0; }).signal == SIGSEGV);
  // As musl raises them.
  CHECK(confined([] {
    signal(SIGABRT, SIG_DFL);
    return static_cast<int>(syscall(SYS_tkill, gettid(), SIGABRT));
  }).signal == SIGABRT);
}

TEST_CASE("limits hold: memory, descriptors, CPU time, no core dumps") {
  if (no_filters_here()) return;
  if (kLimitsOfMemory) {
    const auto take = [](size_t bytes) {
      return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? failed() : 0;
    };
    CHECK(confined([&] { return take(32 << 20); }, {.memory_bytes = 64 << 20}).exit_code == 0);
    CHECK(confined([&] { return take(96 << 20); }, {.memory_bytes = 64 << 20}).exit_code == ENOMEM);
  }
  CHECK(confined([]() -> int { for (;;) {} }, {.cpu_seconds = 1}).signal == SIGXCPU);  // which the hard limit follows some seconds later
  const std::vector<int> open = open_descriptors();
  const rlim_t few = static_cast<rlim_t>(open.empty() ? 2 : open.back()) + 32;
  CHECK(confined([&] {
    rlimit core{1, 1}, files{};
    getrlimit(RLIMIT_CORE, &core);
    getrlimit(RLIMIT_NOFILE, &files);
    return core.rlim_max == 0 && files.rlim_max < few ? 0 : 1;
  }).exit_code == 0);
}

TEST_CASE("inherited descriptors are closed") {
  const Scratch s;
  const int before = dup(s.fd);
  const std::vector<int> open = open_descriptors();
  CHECK(std::count(open.begin(), open.end(), s.fd) == 1);
  CHECK(std::count(open.begin(), open.end(), before) == 1);
  const auto end = run_child({before}, [&] { return fcntl(before, F_GETFD) < 0 && fcntl(s.fd, F_GETFD) >= 0 ? 0 : 1; });
  REQUIRE(end.ok());
  CHECK(end->exit_code == 0);
  close(before);
}

TEST_CASE("landlock alone keeps files closed") {
  const Scratch s;
  const auto end = run_child({}, [&] {
    if (syscall(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0) != 0) return 1;
    const auto why = forbid_files();
    if (!why.ok()) return 2;
    if (!why->empty()) return kNotConfined;
    const auto denied = [](long value) { return value < 0 && errno == EACCES; };
    if (!denied(open(s.path.c_str(), O_RDONLY)) || !denied(open(s.path.c_str(), O_WRONLY))) return 3;
    if (!denied(unlink(s.path.c_str())) || !denied(mkdir((s.folder + "/d").c_str(), 0700))) return 4;
    char content[8] = {};
    return pread(s.fd, content, 7, 0) == 7 ? 0 : 5;
  });
  REQUIRE(end.ok());
  if (end->exit_code == kNotConfined) MESSAGE("skipped: no landlock here");
  else CHECK(end->exit_code == 0);
}

TEST_CASE("the parent passes the signals on that ask it to end") {
  int ready[2];
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  const pid_t parent = fork();
  if (parent == 0) {  // a process that runs a child, as mlrun does
    signal(SIGTERM, SIG_DFL);  // doctest has a handler
    const auto end = run_child({}, [&] {
      (void)!write(ready[1], "r", 1);
      for (;;) pause();
      return 0;
    });
    _exit(end.ok() ? end->signal : 99);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(kill(parent, SIGTERM) == 0);
  int state = 0;
  REQUIRE(waitpid(parent, &state, 0) == parent);
  CHECK(WIFEXITED(state));
  CHECK(WEXITSTATUS(state) == SIGTERM);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("a child ends with its parent") {
  int ready[2];
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ready[0]);
    (void)run_child({}, [&] {
      (void)!write(ready[1], "r", 1);
      for (;;) pause();
      return 0;
    });
    _exit(0);
  }
  close(ready[1]);
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  REQUIRE(kill(parent, SIGKILL) == 0);
  int state = 0;
  REQUIRE(waitpid(parent, &state, 0) == parent);
  CHECK(read(ready[0], &byte, 1) == 0);  // the other end is closed only when the child is gone too
  close(ready[0]);
}
