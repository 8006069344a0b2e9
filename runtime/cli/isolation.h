// A command that opens a container. The container is authenticated; where native code of it may run for certain, the command
// is answered by this process, otherwise, and with --isolated, by a child without privileges (runtime/isolation): nothing that
// a stranger's file says is interpreted here. Files that the child reads or writes are opened before.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli/report.h"
#include "runtime/cli/handles.h"
#include "runtime/cli/options.h"
#include "runtime/io/file.h"

namespace mlc::cli {

struct OpenFiles;

struct ContainerCommand {
  std::string_view name;
  bool as_json = false;
  const ContainerOptions& container;
  std::vector<std::string> inputs{};  // arguments of -i
  std::string output{};               // of -o, empty: none
  // What is run: it bounds the CPU time of an isolated process.
  struct Runs {
    const LimitOptions* limits = nullptr;  // of each run; null: nothing is run
    uint64_t count = 1;                    // of which each may take as long as that
    uint64_t beside_ns = 0;                // of further runs, together
    uint32_t threads = 0;                  // 0: as many as the host has workers
    uint32_t sessions = 1;                 // at once
  } runs{};
  int keep = -1;                      // a descriptor that the answering process keeps
  std::vector<std::string> documents{};  // further files that the answer writes, under any name; empty names: none
  std::function<Status(OpenFiles&)> prepare{};  // opens what else the answer needs; in the process that may
};

// What the answering process starts with.
struct OpenFiles {
  std::string name;  // of the container
  FileHandle container;
  uint64_t authenticate_ns = 0;
  io::InputFiles inputs;
  bool uses_stdin = false;
  uint64_t input_bytes = 0;  // of the files that are open
  bool is_length_unknown = false;  // of one of them: a pipe, a device
  uint64_t more_runs = 0;    // beside those of the command, which what was prepared asks for
  std::optional<io::FileWriter> output;  // filled by the answer, put in place if that is a success
  std::function<std::string()> output_name{};  // asked then, where the answer decides it; none: the name that it was opened with
  std::vector<std::optional<io::FileWriter>> documents;  // likewise, one for each name
  bool isolated = false;
  bool is_quiet = false;  // what is noted of the container has been said
};

// Prints what `body` reports and returns the exit code.
[[nodiscard]] int answer(const ContainerCommand& command, const std::function<Result<Report>(OpenFiles&)>& body);

// The parts of `answer`, for a command that answers several things one after the other.
using Printer = std::function<int(const Result<Report>&)>;  // returns the exit code
// Authenticates, and opens what the command names.
[[nodiscard]] Result<OpenFiles> open_files(const ContainerCommand& command);
// Resource (E6013) where --isolated is wanted and cannot be.
[[nodiscard]] Status check_isolation(const ContainerCommand& command);
// In a process of its own, which closes `inherited`; then the files that it has written are put in place.
[[nodiscard]] int answer_isolated(const ContainerCommand& command, OpenFiles& files, const std::vector<int>& inherited,
                                  const std::function<Result<Report>(OpenFiles&)>& body, const Printer& print);

}  // namespace mlc::cli
