// A container as the tools that sign need it: opened and validated by the one reader, plus its raw outer parts.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/container/container.h"
#include "signing/hash_tree.h"
#include "signing/policy.h"

namespace mlc::cli {

struct ContainerFile {
  std::string path;
  std::unique_ptr<container::Container> opened;
  std::array<std::byte, kCoreSize> core{};
  std::vector<std::byte> manifest;
  std::vector<std::byte> tail;  // the signature block, empty in an unsigned file
  signing::Authentication authentication;
};

// Opens whoever signed it, also where the signature has expired; a wrong signature or structure is refused. The parts
// are read a second time and compared with what the reader saw.
[[nodiscard]] Result<ContainerFile> open_container_file(const std::string& path);

// Writes body and a new signature block to `output` (which may be the same file): complete or not at all, and only if
// the result opens again with the same root.
[[nodiscard]] Status write_with_block(const ContainerFile& file, const std::vector<std::byte>& block,
                                      const std::string& output);

// OK if there is no such file, or it begins like a container, or anything is to be replaced; Usage otherwise, and for folders.
[[nodiscard]] Status may_write(const std::string& path, bool force);

}  // namespace mlc::cli
