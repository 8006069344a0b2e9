// A container as the tools that sign need it: opened and validated by the one reader, plus its signature block.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "packager/cli/look.h"

namespace mlc::cli {

struct ContainerFile : OpenContainer {
  std::vector<std::byte> tail;  // the signature block, empty in an unsigned file
};

// Opens whoever signed it, also where the signature has expired; a wrong signature or structure is refused. The outer parts are
// read a second time and compared with what the reader saw.
[[nodiscard]] Result<ContainerFile> open_container_file(const std::string& path);

// Writes body and a new signature block to `output` (which may be the same file): complete or not at all, and only if
// the result opens again with the same root.
[[nodiscard]] Status write_with_block(const ContainerFile& file, const std::vector<std::byte>& block,
                                      const std::string& output);

// OK if there is no such file, or it begins like a container, or anything is to be replaced; Usage otherwise, and for folders.
[[nodiscard]] Status may_write(const std::string& path, bool force);

}  // namespace mlc::cli
