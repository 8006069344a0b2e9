#include "runtime/api/session/untrusted.h"

#include <algorithm>

#include "base/checked.h"

namespace mlc::api {

WorkLimits work_limits_for(bool is_trusted, uint64_t time_ns) {
  WorkLimits work;
  if (time_ns != 0) work.time_ns = time_ns;
  else if (!is_trusted) work.time_ns = untrusted::kTimeNs;
  if (!is_trusted && work.time_ns != kNoLimit)
    work.units = checked_mul(work.time_ns, untrusted::kUnitsPerNs).value_or(WorkLimits::kNone);
  return work;
}

exec::Limits limits_for(bool is_trusted, const LimitOptions& options, uint64_t free_bytes) {
  exec::Limits limits;
  // An eighth is left for other memory: the run itself reads its weights into memory that counts as free.
  if (free_bytes > 0) limits.max_memory_bytes = std::max<uint64_t>(free_bytes - free_bytes / 8, uint64_t{64} << 20);
  if (!is_trusted) {
    limits.max_memory_bytes = std::min(limits.max_memory_bytes, untrusted::kMemoryBytes);
    limits.confine_loads = true;
    limits.broken_code = Code::Malformed;
  }
  if (options.memory_bytes != 0) limits.max_memory_bytes = options.memory_bytes;
  limits.work = work_limits_for(is_trusted, options.time_ns);
  return limits;
}

}  // namespace mlc::api
