// The segments of a container as they are stored, on their way into another copy of it: nothing is decoded or compressed again.
#pragma once

#include <string>
#include <vector>

#include "packager/cli/container_file.h"
#include "packager/container/image.h"

namespace mlc::cli {

// One per segment; those that are absent in `file` are in it as such. They read from the file, which must outlive them, when they are
// delivered, so what arrives is hashed behind it.
[[nodiscard]] Result<std::vector<container::StoredSegment>> stored_segments(const ContainerFile& file);

}  // namespace mlc::cli
