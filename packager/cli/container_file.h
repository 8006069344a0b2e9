// A container as the tools that sign and change need it: opened and validated by the one reader, plus the bytes that are signed and
// its signature block.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/cli/look.h"
#include "packager/container/image.h"
#include "packager/container/output_file.h"

namespace mlc::cli {

struct ContainerFile : OpenContainer {
  container::Core core{};
  std::vector<std::byte> manifest;
  std::vector<std::byte> tail;  // the signature block, empty in an unsigned file
};

// Opens a file of any signer, also where the signature has expired; a wrong signature or structure is refused. The outer parts are
// read a second time and compared with what the reader saw.
[[nodiscard]] Result<ContainerFile> open_container_file(const std::string& path);

// Delivers a range of a file in pieces; of an executable with a container (spec/container.md, section 13) a range of that.
[[nodiscard]] Status copy_range(const std::string& path, uint64_t offset, uint64_t length, const container::Sink& sink);

// Writes body and a new signature block to `output` (which may be the same file): complete or not at all, and only if
// the result opens again with the same root.
[[nodiscard]] Status write_with_block(const ContainerFile& file, const std::vector<std::byte>& block,
                                      const std::string& output);

// Writes what `emit` puts into a file, complete or not at all: `output` (which may be a file that is read meanwhile) gets it only if it
// opens with this root, the one of `of`, and `accept`, which may be empty, is content.
[[nodiscard]] Status write_checked(const std::string& output, const Digest& root, const std::string& of,
                                   const std::function<Status(container::OutputFile&)>& emit,
                                   const std::function<Status(const OpenContainer&)>& accept = {});

}  // namespace mlc::cli
