// A process that can compute and answer, and nothing else.
//
// `confine` gives up the privileges of the calling process for good: no file is opened any more (reading neither), none
// written but those that are open, no socket, no other process, no new code in memory. What remains is the list of
// allowed_syscalls.h. Two mechanisms of Linux do the same job twice, because either may be missing or have a hole: a filter
// of system calls (seccomp), and rules about files, ports and signals (landlock). spec/isolation.md has the whole.
//
// `run_child` makes the process that is confined, and tells its end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::sandbox {

struct Limits {
  bool native_code = false;     // executable pages may be made: a trusted file brings code of its own
  uint64_t memory_bytes = 0;    // of private memory; 0: no limit. Ignored under sanitizers that have memory of their own
  uint64_t cpu_seconds = 0;     // of all threads; 0: no limit
};

// What holds after `confine`. Empty strings: in force; otherwise why it is not.
struct Confinement {
  std::string no_call_filter;  // "this kernel has no seccomp filters"
  std::string no_file_rules;   // "this kernel has no landlock"
};

// For the calling process, which must have one thread only. Descriptors stay open as they are. A mechanism that this
// system lacks is named in the result; Resource, if one that it has refuses.
[[nodiscard]] Result<Confinement> confine(const Limits& limits);

// Whether `confine` would filter system calls here; empty, or why not. Changes nothing.
[[nodiscard]] std::string why_no_call_filter();

// Whether `run_child` can make a process here; empty, or why not: Windows has no fork, and nothing that confines a process is built for it.
[[nodiscard]] std::string why_no_process();

// The descriptors from 3 on that are open now: for a tool, those that it inherited.
[[nodiscard]] std::vector<int> open_descriptors();

// How a child ended: by itself, or by a signal.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;  // not 0: killed by it
};

// Forks. The child has no core dumps, ends with its parent, has lost the descriptors `close_first`, and ends with the exit
// code that `work` returns, without running destructors of anything else. The parent waits, passing on the signals that
// ask a process to end (SIGINT and SIGQUIT only if they do not come from the terminal, which sends them to both), and
// returns. Resource: no process could be made. To be called while there is one thread.
[[nodiscard]] Result<ChildEnd> run_child(const std::vector<int>& close_first, const std::function<int()>& work);

}  // namespace mlc::sandbox
