#include "runtime/sandbox/landlock.h"

#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace mlc::sandbox {
namespace {

// struct landlock_ruleset_attr of version 6; the headers of Debian 12 know the first field.
struct Ruleset {
  uint64_t files = 0;
  uint64_t network = 0;  // from version 4
  uint64_t scoped = 0;   // from version 6
};

// How many rights on files version 1, 2, ... has: they are the lowest bits.
constexpr unsigned kFileRights[] = {13, 14, 15, 15, 16};

}  // namespace

Result<std::string> forbid_files() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1)
    return std::string(errno == EOPNOTSUPP ? "landlock is switched off in this kernel" : "this kernel has no landlock");
  const auto known = static_cast<size_t>(version) < std::size(kFileRights) ? static_cast<size_t>(version) : std::size(kFileRights);
  Ruleset rules;
  rules.files = (uint64_t{1} << kFileRights[known - 1]) - 1;
  if (version >= 4) rules.network = 3;  // to bind and to connect TCP
  if (version >= 6) rules.scoped = 3;   // abstract sockets and signals of others
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const long fd = syscall(SYS_landlock_create_ruleset, &rules, size, 0);
  if (fd < 0) return Status(Code::Resource, "landlock: {}", std::strerror(errno));
  const bool restricted = syscall(SYS_landlock_restrict_self, static_cast<int>(fd), 0) == 0;
  Status failure = restricted ? ok() : Status(Code::Resource, "landlock: {}", std::strerror(errno));
  close(static_cast<int>(fd));
  if (!restricted) return failure;
  return std::string();
}

}  // namespace mlc::sandbox
