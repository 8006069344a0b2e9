// Lines that a child hands over to its parent, which uses them instead of showing what the child printed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "signing/files/file.h"

namespace mlc::cli {

class PassedLines {
 public:
  PassedLines();  // a file of memory, which both have
  int descriptor() const { return file_.get(); }
  // In the child. Lines beyond a megabyte, and those that hold a line's end, are left out.
  [[nodiscard]] Status put(const std::vector<std::string>& lines) const;
  // In the parent, once the child has ended; nothing if they cannot be read.
  std::vector<std::string> get() const;

 private:
  signing::Descriptor file_;
};

}  // namespace mlc::cli
