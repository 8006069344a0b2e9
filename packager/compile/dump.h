// What a build shows of its levels: the whole program as it comes into being, and each kernel as it becomes code.
//
//   import        the model as it was read
//   expand        nests, before any pass
//   <pass>        nests behind this pass (passes/passes.h); `passes`: import, expand and all of these
//   nest          of a kernel: the statements that it computes
//   schedule      how: loops, tiles, lanes, and along what it may be cut
//   loop          the kernel that this makes
//   llvm          behind LLVM's last pass; nothing for `portable`
//   asm           as it runs; nothing for `portable`
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::compile {

struct DumpedText {
  std::string target;  // empty: of the whole program
  std::string kernel;  // "3-Conv_12__Conv": its number in the target's code, and its name; empty: of the whole program
  std::string level;
  std::string text;    // lines
};

struct DumpOptions {
  std::set<std::string> levels;  // empty: nothing is shown
  std::string only;              // of kernels those of this name, as profiles have it; empty: all
  std::function<Status(const DumpedText&)> show;

  bool wants(const std::string& level) const { return levels.contains(level); }
  bool wants_kernels() const;
};

// Usage where a word is none.
Status check_dump(const DumpOptions& options);
std::vector<std::string> dump_words();

}  // namespace mlc::compile
