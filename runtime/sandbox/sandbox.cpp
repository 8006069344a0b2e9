#include "runtime/sandbox/sandbox.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/sanitized.h"
#include "runtime/sandbox/call_filter.h"
#include "runtime/sandbox/landlock.h"

namespace mlc::sandbox {
namespace {

// The shadow memory of a sanitizer counts as private memory, terabytes of it.
#ifdef MLC_SANITIZED
constexpr bool kMemoryCanBeLimited = false;
#else
constexpr bool kMemoryCanBeLimited = true;
#endif

constexpr rlim_t kSecondsToEnd = 5;  // of processor time, from SIGXCPU, which a report can name, to SIGKILL
constexpr rlim_t kMostDescriptors = 16;  // beyond those that are open: none is opened but for pages of code

Status refused(const char* what) { return Status(Code::Resource, "{}: {}", what, std::strerror(errno)); }

// Lowers a limit, soft and hard. One that is lower already stays. `beyond`: how much the hard one is above the soft one, which is
// told by a signal.
Status limit(decltype(RLIMIT_CORE) which, rlim_t value, const char* what, rlim_t beyond = 0) {
  rlimit now{};
  if (getrlimit(which, &now) != 0) return refused(what);
  const auto at_most = [&](rlim_t v) { return now.rlim_max != RLIM_INFINITY && now.rlim_max < v ? now.rlim_max : v; };
  const rlimit lower{at_most(value), at_most(value + beyond)};
  return setrlimit(which, &lower) == 0 ? ok() : refused(what);
}

Status lower_limits(const Limits& limits) {
  MLC_RETURN_IF_ERROR(limit(RLIMIT_CORE, 0, "limit of core dumps"));
  const std::vector<int> open = open_descriptors();
  const rlim_t highest = open.empty() ? 2 : static_cast<rlim_t>(open.back());
  MLC_RETURN_IF_ERROR(limit(RLIMIT_NOFILE, highest + 1 + kMostDescriptors, "limit of open files"));
  if (kMemoryCanBeLimited && limits.memory_bytes != 0) MLC_RETURN_IF_ERROR(limit(RLIMIT_DATA, limits.memory_bytes, "limit of memory"));
  if (limits.cpu_seconds != 0) MLC_RETURN_IF_ERROR(limit(RLIMIT_CPU, limits.cpu_seconds, "limit of CPU time", kSecondsToEnd));
  return ok();
}

}  // namespace

Result<Confinement> confine(const Limits& limits) {
  MLC_RETURN_IF_ERROR(lower_limits(limits));
  // No program with more rights can be started, no other process of this user may look into this one.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return refused("PR_SET_DUMPABLE");
  Confinement done;
  MLC_ASSIGN(done.no_file_rules, forbid_files());
  done.no_call_filter = why_no_call_filter();
  if (done.no_call_filter.empty()) MLC_RETURN_IF_ERROR(filter_calls(limits.native_code));  // last: it forbids all of the above
  return done;
}

}  // namespace mlc::sandbox
