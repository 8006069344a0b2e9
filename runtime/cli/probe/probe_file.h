// What `mlrun probe --json` said on another machine, as the record that was made there.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/probe/record.h"

namespace mlc::cli {

// Features that the file does not name are those of another kind of processor, or newer than it: "no" for the first, "unknown" for the
// others. NotFound if the file cannot be read, Malformed if it is no answer of `mlrun probe --json`.
[[nodiscard]] Result<probe::Record> read_probe_file(const std::string& path);

}  // namespace mlc::cli
