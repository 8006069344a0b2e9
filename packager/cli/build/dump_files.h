// Where `mlpack build --dump` shows what it shows.
#pragma once

#include <set>
#include <string>

#include "packager/compile/dump.h"

namespace mlc::cli {

// Under a line that says what follows.
Status show_on_stdout(const compile::DumpedText& dumped);

// A file for each: "fuse.nest", "x86-64-v4/3-Conv_12__Conv.s". What is there under such a name is replaced; a function that comes
// behind another at one level is written behind it.
class DumpFolder {
 public:
  explicit DumpFolder(std::string folder) : folder_(std::move(folder)) {}
  Status operator()(const compile::DumpedText& dumped);

 private:
  std::string folder_;
  std::set<std::string> written_;
};

}  // namespace mlc::cli
