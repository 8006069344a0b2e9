// The last step of a build: the golden vectors of the finished file, in every variant that runs on this machine.
// Variants for devices run on those that drivers show here, those of software included.
//
// It goes through the library's C API, as any application does, so what is tested is what will run: the reader, the loaders, the
// code. Each variant runs in a process of its own: wrong code may crash, and the build says which variant that was.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/build.h"

namespace mlc::cli {

struct SelfTestReport {
  struct Variant {
    std::string name;
    size_t vectors = 0;  // that were run
    std::string device;  // that ran them; empty: the processor
    std::string reason;  // why it does not run here; empty: it does
    std::map<std::string, double> errors;  // by program: how far its answers lay from those expected, relative to the largest value of an output
  };
  size_t vectors = 0;  // of the file
  std::vector<Variant> variants;

  std::string text() const;  // one line, for people
};

// Native variants run all vectors. The portable one, and devices of software, are slow: they run them in the order of `file.vectors` as
// long as these make up at most so many operations; the portable one runs the first in any case.
inline constexpr double kPortableOperations = 2e9, kSoftwareOperations = 1e9;

// Whose code is in the file. A stranger's runs in its portable form only, in a process without privileges.
enum class CodeOf : uint8_t { Us, Stranger };

// SelfTest, with variant, vector, element and both values, if an answer is wrong, or a run fails or crashes.
Result<SelfTestReport> self_test(const compile::FinishedFile& file, const std::function<void(const compile::Stage&)>& progress, CodeOf code_of = CodeOf::Us);

}  // namespace mlc::cli
