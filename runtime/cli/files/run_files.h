// mlrun run of several files: folders, a list, or names with --json-lines. Each is answered as if it were alone, in order; one that fails is told,
// and the others are done.
//
// A container whose native code may run is opened once, in this process: threads decode ahead of the runs, and another one prints and
// writes behind them. Any other is opened anew in a process without privileges for each file (spec/isolation.md): limits of time and
// memory are those of one file, and a file that takes its process over has no other one to read or to answer for.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/options.h"

namespace mlc::cli {

struct FilesRun {
  const ContainerOptions& container;
  const VariantOptions& variant;
  const InputOptions& input;  // `specs` are [NAME=]FILE or [NAME=]FOLDER
  std::string list;           // of --input-list
  std::string results;        // of -o
  int64_t top = 0;
  bool as_json = false, as_json_lines = false;
};

// Whether the words of a command line mean several files, whatever the container is.
bool means_files(const FilesRun& run);
// Returns the exit code: that of the first file that failed.
int run_files(const FilesRun& run);

}  // namespace mlc::cli
