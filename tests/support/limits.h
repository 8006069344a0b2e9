// Limits of the formats (spec/limits.md): an input at the limit is read, one beyond it is refused with the reason, and
// both within time and memory that a stranger's file may cost.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <functional>
#include <span>
#include <string>

#include "base/sanitized.h"
#include "base/status.h"

namespace mlc::test {

struct Limit {
  const char* id;  // of spec/limits.md, whose number is `most`: tests/layering/limits_test.py compares them
  uint64_t most;
  // Makes an input of that size, which is not counted, and answers what reads it, which is.
  std::function<std::function<Status()>(uint64_t)> make;
  const char* says;        // in the message that refuses one more than `most`
  bool otherwise = false;  // an input at the limit is refused as well, for another reason
  uint64_t mib = 64;       // of memory that reading may take
};

// What a reader answered in a process of its own, with so much address space more than before.
struct Bounded {
  bool ended = false;  // it was not killed and did not abort
  bool ok = false;
  double seconds = 0;  // of processor time: the machine may be busy
  std::string message;
};
inline Bounded run_bounded(const std::function<Status()>& read, [[maybe_unused]] uint64_t mib) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
#ifndef MLC_SANITIZED
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + (mib << 20);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
#endif
    const Status status = read();
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);  // begins with the process
    const double seconds = static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
    const std::string answer = std::to_string(seconds) + (status.ok() ? " ok " : " no ") + status.message.substr(0, 2000);
    const bool written = ::write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer(4096, '\0');
  const ssize_t got = ::read(ends[0], answer.data(), answer.size());  // in one piece: shorter than a pipe's buffer
  ::close(ends[0]);
  int how = 0;
  ::waitpid(child, &how, 0);
  Bounded out;
  out.ended = WIFEXITED(how) && WEXITSTATUS(how) == 0 && got > 0;
  if (!out.ended) return out;
  answer.resize(static_cast<size_t>(got));
  const size_t word = answer.find(' ');
  out.seconds = std::stod(answer.substr(0, word));
  out.ok = answer.compare(word, 4, " ok ") == 0;
  out.message = answer.substr(word + 4);
  return out;
}

inline void check_limits(std::span<const Limit> limits) {
#ifdef MLC_SANITIZED
  constexpr double kSeconds = 20;
#else
  constexpr double kSeconds = 2;
#endif
  for (const Limit& limit : limits) {
    CAPTURE(std::string(limit.id));
    const Bounded at = run_bounded(limit.make(limit.most), limit.mib);
    CAPTURE(at.message);
    CHECK_MESSAGE(at.ended, "at the limit: aborted, or more memory than ", limit.mib, " MiB");
    CHECK(at.seconds < kSeconds);
    if (limit.otherwise)
      CHECK(at.message.find(limit.says) == std::string::npos);
    else
      CHECK(at.ok);
    const Bounded beyond = run_bounded(limit.make(limit.most + 1), limit.mib);
    CAPTURE(beyond.message);
    CHECK_MESSAGE(beyond.ended, "beyond the limit: aborted, or more memory than ", limit.mib, " MiB");
    CHECK(beyond.seconds < kSeconds);
    CHECK_FALSE(beyond.ok);
    CHECK(beyond.message.find(limit.says) != std::string::npos);
  }
}

}  // namespace mlc::test
