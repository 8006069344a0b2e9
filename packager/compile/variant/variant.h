// Compiles the functions of a container for one target: kernels, module, plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/dump.h"
#include "packager/compile/weights.h"
#include "packager/ir/context.h"
#include "packager/lang/lang.h"
#include "packager/passes/segments/partition.h"
#include "packager/schedule/schedule.h"
#include "targets/target.h"

namespace mlc::compile {

// A launch of a plan, in the order of the plan.
struct CompiledLaunch {
  std::string function, source;
  size_t statement = 0;   // of the function; statements of a group are one
  std::string nest;       // tune::nest_name; empty: none that is scheduled alone
  std::string schedule;   // of its kernel
};

struct CompiledVariant {
  const targets::Target* target = nullptr;
  std::vector<std::byte> module, plan;
  std::vector<std::string> programs;  // of the container, that it has code for; empty: all
  std::set<std::string> services;  // of the application, that the plan asks for
  std::vector<CompiledLaunch> launches;  // where schedules were chosen by others
  size_t num_kernels = 0;   // emitted
  size_t num_launches = 0;  // of all segments
};

// Chooses how a nest is computed in place of this compiler: one of `alternatives`, or any other that suits. None: the first of them.
// A schedule that does not suit the nest is not followed.
using ChooseSchedule = std::function<std::optional<schedule::Schedule>(const targets::Target& target, const std::string& nest,
                                                                       const std::vector<schedule::Schedule>& alternatives)>;

struct VariantOptions {
  Progress progress;                          // counts kernels; may be empty
  unsigned threads = 0;                       // targets::EmitOptions
  targets::CodeStore* store = nullptr;        // of code made before; null: what this variant has made is kept for as long as it takes
  const DumpOptions* dump = nullptr;          // what is shown of kernels; may be null
  ChooseSchedule choose = {};                 // asked for each nest that is not in a group; may be empty
  std::vector<std::string> programs = {};     // of the container, that get code; empty: all
};

// Segments have passed all passes, those of the target's class (layouts do not depend on it, so that weights exist once); `weights` is
// sealed. The module has passed the audit when this returns.
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

// Why a statement of a segment keeps a model from a device.
struct RefusedStatement {
  size_t segment = 0, statement = 0;
  std::string why;
};
// As compile_variant for a device, which asks all statements where that ends with the first that is refused. None are: the device gets
// a variant. Fails where something else than a statement is refused, as the whole plan may be.
Result<std::vector<RefusedStatement>> refused_by_device(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts, const WeightStore& weights,
                                                        const targets::Target& device);

// Those of `programs`, names of the container's, of which the device refuses no statement.
std::vector<std::string> possible_programs(const passes::Parts& parts, std::span<const std::string> programs, std::span<const RefusedStatement> refused);

}  // namespace mlc::compile
