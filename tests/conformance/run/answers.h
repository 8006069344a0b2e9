// A model with its inputs on its way to answers, along every path: expanded and optimised once, compiled for each target that is
// asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "packager/compile/programs.h"
#include "packager/lang/lang.h"
#include "packager/nest/interpret/interpret.h"
#include "tests/conformance/case.h"
#include "tests/conformance/run/outcome.h"

namespace mlc::conformance {

class Answers {
 public:
  // `library` must outlive it. `check`: verify with index ranges, and the interpreter before and after every pass.
  Answers(const lang::Library& library, LoadedCase loaded, bool check = false) : library_(library), check_(check), loaded_(std::move(loaded)) {}

  // Expands the model, told as little of its inputs as it takes: once, before all else.
  Status begin();

  // The paths that follow: programs are made for devices as well, if some are of these.
  void will_run(const std::vector<Path>& paths);
  // Leaves the case out on paths of executors if the interpreter counts more work than that (InterpretOptions::work). Before the first path.
  void bound_executors(double most_work);
  // The outputs, in the order of the model's. The interpreter (a path without a target) runs what was expanded: ask it first, the
  // first compiled path takes the function apart.
  Result<std::vector<nest::Tensor>> on(const Path& path);
  // What was expanded, on other inputs of the same shapes or by other rounding; before the first compiled path too.
  Result<std::vector<nest::Tensor>> interpreted(const std::vector<nest::Tensor>& inputs, const nest::InterpretOptions& options) const;

  // What a target's kernels are before they are emitted, to be interpreted, perhaps otherwise than they are (interpret_kernels.h).
  struct Kernels {
    std::vector<std::byte> container, plan;
    std::vector<std::string> texts;
  };
  Result<Kernels> kernels_for(const targets::Target& target);

  // The right outputs, where they were not known before: a program of a container has a golden vector.
  void expect(std::vector<nest::Tensor> outputs);

  const LoadedCase& loaded() const { return loaded_; }
  const std::vector<nest::Tensor>& inputs() const { return inputs_; }  // those that were not made constants
  const nest::Function& function() const { return programs_[0].function; }
  Given given() const { return given_; }
  bool launches() const { return launches_; }  // the last path had kernels to launch

 private:
  Status expand();
  Result<std::vector<nest::Tensor>> on_device(const Path& path);
  Result<std::vector<std::byte>> container_for(const targets::Target& target);
  compile::GoldenVector golden() const;
  Status optimise();

  const lang::Library& library_;
  bool check_;
  LoadedCase loaded_;
  Given given_ = Given::Nothing;
  std::optional<ir::Context> ctx_;
  std::vector<compile::Program> programs_;  // one, "main"
  std::vector<nest::Tensor> inputs_;        // of the program
  std::string too_large_;                   // for executors, and why; else empty
  bool launches_ = true, for_devices_ = false;
  compile::Optimised parts_;
  compile::WeightStore weights_;
  std::optional<Status> optimised_;
  std::optional<Result<compile::CompiledVariant>> portable_;
};

}  // namespace mlc::conformance
