// The profile of the untrusted: what a container gets whose native code may not run, because no signer whom the user trusts
// has signed it and the user has not asked for it. All of its numbers are here; spec/untrusted.md has the rules in words.
#pragma once

#include <cstdint>

#include "runtime/plan/execute/executor.h"

namespace mlc::api {

namespace untrusted {

// One run. With opening, loading and writing answers a process stays below two seconds.
inline constexpr uint64_t kTimeNs = 1'500'000'000;
// Work in that time, of all workers together: what some sixteen cores can do. It ends a run where the clock does not
// (a machine with many cores, a clock that stands still), and grows with the time that the user allows.
inline constexpr uint64_t kUnitsPerNs = 16;
// A session. With the program itself, the mapped file and what is shown of the answers a process stays below 300 MB.
inline constexpr uint64_t kMemoryBytes = uint64_t{192} << 20;

}  // namespace untrusted

// What the application asks for: 0 the default, kNoLimit no limit.
inline constexpr uint64_t kNoLimit = UINT64_MAX;
struct LimitOptions {
  uint64_t time_ns = 0, memory_bytes = 0;
};

// Of one run, with what the application says for it or, where that is 0, for the session.
WorkLimits work_limits_for(bool is_trusted, uint64_t time_ns);
// Limits of a session. `free_bytes`: unused memory of the host, 0 if not known.
exec::Limits limits_for(bool is_trusted, const LimitOptions& options, uint64_t free_bytes);

}  // namespace mlc::api
