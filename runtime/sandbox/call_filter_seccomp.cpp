#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/sandbox/allowed_syscalls.h"
#include "runtime/sandbox/call_filter.h"

namespace mlc::sandbox {
namespace {

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};

Status refused(int error) { return Status(Code::Resource, "seccomp: {}", std::strerror(-error)); }

int allow(void* filter, const AllowedCall& call) {
  scmp_arg_cmp arguments[2];
  unsigned count = 0;
  for (const Condition& c : call.conditions) {
    if (c.mask == 0) break;
    const uint64_t value = c.value == kThisProcess ? static_cast<uint64_t>(getpid()) : c.value;
    arguments[count++] = {c.index, SCMP_CMP_MASKED_EQ, c.mask, value};
  }
  return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call.number, count, arguments);
}

}  // namespace

std::string why_no_call_filter() {
  // Asks whether the kernel knows an action; a kernel without filters, or an emulator, knows none.
  const uint32_t action = SECCOMP_RET_KILL_PROCESS;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) return {};
  return "this kernel has no filters of system calls";
}

Status filter_calls(bool native_code) {
  const std::unique_ptr<void, Release> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) return Status(Code::Resource, "seccomp: out of memory");
  if (const int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS); error != 0)
    return refused(error);
  for (const AllowedCall& call : kAllowedCalls) {
    if (call.for_code && !native_code) continue;
    if (const int error = allow(filter.get(), call); error != 0) return refused(error);
  }
  for (const int call : kEndsTheProcess)
    if (const int error = seccomp_rule_add(filter.get(), SCMP_ACT_KILL_PROCESS, call, 0); error != 0) return refused(error);
  if (const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0); error != 0)
    return refused(error);
  if (const int error = seccomp_load(filter.get()); error != 0) return refused(error);
  return ok();
}

}  // namespace mlc::sandbox
