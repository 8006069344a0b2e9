#include "packager/cli/build/dump_files.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/cli/report.h"

namespace mlc::cli {
namespace {

namespace fs = std::filesystem;

bool is_of_kernel(const compile::DumpedText& dumped) { return !dumped.target.empty(); }

std::string file_name(const compile::DumpedText& dumped) {
  if (is_of_kernel(dumped)) return dumped.kernel + (dumped.level == "llvm" ? ".ll" : dumped.level == "asm" ? ".s" : "." + dumped.level);
  return dumped.level + (dumped.level == "import" ? ".model" : ".nest");
}

}  // namespace

Status show_on_stdout(const compile::DumpedText& dumped) {
  const std::string head = is_of_kernel(dumped) ? "; " + dumped.level + " of " + dumped.kernel + " for " + dumped.target : "; after " + dumped.level;
  const std::string text = printable_lines(head + "\n" + dumped.text + (dumped.text.ends_with('\n') ? "" : "\n"));  // names are the model's
  std::fwrite(text.data(), 1, text.size(), stdout);
  return ok();
}

Status DumpFolder::operator()(const compile::DumpedText& dumped) {
  const fs::path folder = is_of_kernel(dumped) ? fs::path(folder_) / dumped.target : fs::path(folder_);
  const fs::path path = folder / file_name(dumped);
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream file(path, written_.insert(path.string()).second ? std::ios::trunc : std::ios::app);
  file << dumped.text;
  if (error || !file.flush()) return Status(Code::Resource, "--dump-dir: '" + path.string() + "' cannot be written");
  return ok();
}

}  // namespace mlc::cli
