// The seam at which kinds of machines plug in. An emitter knows some targets, turns kernels into modules for them, proves what it
// made from the bytes, and says what a variant asks of a machine. Nothing outside of targets/ tells one kind from another: a new
// one is a folder here, a row in `emitters`, and a loader of its module format.
#pragma once

#include <span>
#include <vector>

#include "packager/loop/loop.h"
#include "schema/manifest.h"
#include "targets/print_kernel.h"
#include "targets/target.h"

namespace mlc::targets {

class Emitter {
 public:
  virtual ~Emitter() = default;

  // As long as the process; each points back here.
  virtual std::span<const Target> targets() const = 0;
  // What emitting needs of this machine beside memory.
  virtual Status can_emit() const { return ok(); }
  // Entry k of the module is kernels[k], which passed loop::verify. Equal input gives equal bytes. Where a kernel needs a frame
  // above kMaxFrame it is listed in `large`, and the module has no bytes.
  virtual Result<Module> emit(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large,
                              const EmitOptions& options) const = 0;
  // A kernel as it is compiled; empty where there is nothing to show.
  virtual Result<KernelText> print(const Target&, const loop::Kernel&) const { return KernelText(); }
  // Proves from the bytes that the module keeps its format and uses nothing that the target does not list.
  virtual Status audit(const Target& target, std::span<const std::byte> module) const = 0;
  // Adds to a variant: its family, the format of its module, and the features and clauses that a machine must meet. What the
  // module uses decides where not all modules of a target ask for the same; it has passed the audit.
  virtual void require(const Target& target, std::span<const std::byte> module, format::Variant& variant) const = 0;
};

// In the order in which a file for all targets holds their variants; the portable one is last. Those of devices are among them.
std::span<const Emitter* const> emitters();

}  // namespace mlc::targets
