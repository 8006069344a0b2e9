// The program of a container as its segment has it: what the build was asked for, and the model without the constants that the container has anyway
// (spec/container.md, section 12).
#pragma once

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::compile {

struct StoredProgram {
  std::string options;           // JSON, of the command that builds
  std::vector<std::byte> model;  // packager/import/references.h
};
inline constexpr uint32_t kProgramVersion = 1;

[[nodiscard]] std::vector<std::byte> encode_program(const StoredProgram& program);
// Malformed if `bytes` are none.
[[nodiscard]] Result<StoredProgram> decode_program(Bytes bytes);

}  // namespace mlc::compile
