// executable as a function: mlrun and a container in one file that runs by itself (spec/container.md, section 13), and the container out of it.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "schema/executable.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

struct ExecutableOptions {
  std::string file, output;
  std::string runner;  // empty: the one that came with mlpack
  bool force = false;  // replaces a file that is neither a container nor an executable with one
};
struct ExecutableResult {
  Digest root{};
  std::string output, runner, machine;  // of the runner: "x86-64", or its number in ELF
  uint64_t bytes = 0, runner_bytes = 0;
  format::ContainerPart part;
};
// What makes `write_executable` fail without the container: the runner is missing or none, the output may not be written.
[[nodiscard]] Status may_write_executable(const ExecutableOptions& options);
// `file` may be of any signer, and an executable itself, whose container is taken. The output appears complete or not at all, may be run by all
// who may read it, and is opened before it gets its name.
[[nodiscard]] Result<ExecutableResult> write_executable(const ExecutableOptions& options);

// Where the container of an executable is; none: the file is another one, or is not there. Malformed (E1102) as of find_part.
[[nodiscard]] Result<std::optional<format::ContainerPart>> part_in(const std::string& path);

struct TakenContainer {
  Digest root{};
  uint64_t bytes = 0;
};
// The container of an executable, byte for byte, as a file. Usage if `file` is none. Every segment is compared with its digest.
[[nodiscard]] Result<TakenContainer> take_container(const std::string& file, const std::string& output, bool force);

}  // namespace mlc::cli
