// From one file of several to what is printed of it: read, decoded, run, shown. Each part may be done by a thread of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cli/report.h"
#include "runtime/cli/files/file_list.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/options.h"

namespace mlc::cli {

// How files are answered, the same for all of them.
struct FilesTask {
  const OpenModel& model;
  const mlio::Target& target;
  const LimitOptions& limits;
  std::string results;  // folder of pictures or sounds; empty: none
  int64_t top = 0;
  bool as_json_lines = false;
};

// Usage, unless the pipeline takes one file and gives what the options ask for; InputMismatch (E4001) where its input has another name.
Status check_task(const FilesTask& task, const std::string& input_name);

// What a file of a folder is by its first bytes, if the pipeline does not take it; empty: it does, or the user has named the file.
std::string why_skipped(const FilesTask& task, const ListedFile& file, const signing::Descriptor& open);

// What the decoders made of a file.
struct DecodedFile {
  Status failure;
  std::string skipped;  // what a file of a folder is that the pipeline does not take; empty: it does
  std::vector<NamedTensor> made;
  uint64_t bytes = 0, ns = 0;  // of `made`; that reading and decoding took
  uint64_t counted = 0;        // of --memory-limit
};
// Reads what is open. Called by several threads at once.
DecodedFile decode_file(const FilesTask& task, const ListedFile& file, Result<signing::Descriptor> open);

struct FileAnswer {
  std::string path;
  Status failure;
  std::string skipped;
  std::string text;
  Json json = Json::object();
  std::vector<std::byte> result;  // the file that goes to the folder of results
};
FileAnswer answer_file(const FilesTask& task, const ListedFile& file, DecodedFile decoded, const OpenSession& session);

// On standard output, a failure without JSON on standard error. What was skipped is not told. Returns the exit code.
int print_answer(const FileAnswer& answer, bool as_json_lines);
// What the pipeline makes of each file that goes to a folder, pictures or sounds.
bool makes_sounds(const FilesTask& task);
// Where that goes.
std::string result_path(const std::string& results, const ListedFile& file, bool is_sound);

}  // namespace mlc::cli
