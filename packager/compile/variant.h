// Compiles the functions of a container for one target: kernels, module, plan.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/dump.h"
#include "packager/compile/weights.h"
#include "packager/ir/context.h"
#include "packager/lang/lang.h"
#include "packager/passes/partition.h"
#include "targets/target.h"

namespace mlc::compile {

struct CompiledVariant {
  const targets::Target* target = nullptr;
  std::vector<std::byte> module, plan;
  std::set<std::string> services;  // of the application, that the plan asks for
  size_t num_kernels = 0;   // emitted
  size_t num_launches = 0;  // of all segments
};

struct VariantOptions {
  Progress progress;                          // counts kernels; may be empty
  unsigned threads = 0;                       // targets::EmitOptions
  targets::CodeStore* store = nullptr;        // of earlier builds; may be null
  const DumpOptions* dump = nullptr;          // what is shown of kernels; may be null
};

// Segments have passed all passes and are shared by all targets (layouts do not depend on the target, so that weights
// exist once); `weights` is sealed. The module has passed the audit when this returns.
Result<CompiledVariant> compile_variant(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts,
                                        const WeightStore& weights, const targets::Target& target, const VariantOptions& options = {});

// Takes those out that a target on which theirs is based makes superfluous: with the same code and the same plan, for more machines.
void drop_equal_variants(std::vector<CompiledVariant>& variants);

// What a statement of a segment becomes.
struct LoweredStatement {
  size_t segment = 0, statement = 0;
  bool is_scalar = false;  // its code handles one element at a time
};
// As compile_variant, without making code: fails as that would, in a fraction of the time.
Result<std::vector<LoweredStatement>> try_variant(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts,
                                                  const WeightStore& weights, const targets::Target& target);

}  // namespace mlc::compile
