// The part of a container that this machine can run: what `pull --keep-host` fetches.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/container/output_file.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"

namespace mlc::registry {

struct HostPart {
  std::set<uint32_t> segments;                // that stay
  std::vector<std::string> variants, absent;  // names, in the order of the file; absent ones are left out, or were so before
};

// Variants for this processor that fit it, the portable one, and those for devices where the machine has any device node: drivers are not asked.
[[nodiscard]] HostPart host_part(const container::Container& file);

// Writes that part of a file, which is open and lies in `source`, root and signatures as they are. Of the segments that stay all bytes must be there.
[[nodiscard]] Status write_part(const HostPart& part, const container::Container& file, const container::Source& source, container::OutputFile& out);

}  // namespace mlc::registry
