// The last step of a build: the golden vectors of the finished file, in every variant that runs on this machine.
//
// It goes through the library's C API, as any application does, so what is tested is what will run: the reader, the loaders, the
// code. Each variant runs in a process of its own: wrong code may crash, and the build says which variant that was.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/build.h"

namespace mlc::cli {

struct SelfTestReport {
  struct Variant {
    std::string name;
    size_t vectors = 0;  // that were run
    std::string reason;  // why it does not run here; empty: it does
  };
  size_t vectors = 0;  // of the file
  std::vector<Variant> variants;

  std::string text() const;  // one line, for people
};

// Native variants run all vectors. The portable one, which is slow, runs them in the order of `file.vectors` as long as they
// make up at most this many operations, and at least the first.
inline constexpr double kPortableOperations = 2e9;

// SelfTest, with variant, vector, element and both values, if an answer is wrong, or a run fails or crashes.
Result<SelfTestReport> self_test(const compile::FinishedFile& file, const std::function<void(const compile::Stage&)>& progress);

}  // namespace mlc::cli
