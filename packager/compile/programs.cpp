#include "packager/compile/programs.h"

#include <algorithm>
#include <unordered_set>

#include "packager/compile/interface.h"
#include "packager/nest/facts/batch.h"
#include "packager/passes/segments/cut.h"
#include "packager/passes/segments/derive.h"
#include "schema/audit.h"
#include "schema/features.h"
#include "targets/emitter.h"

namespace mlc::compile {

namespace {

// Large models have much to compute from their constants, small ones have little.
double folding_of(const passes::Parts& parts) {
  std::unordered_set<const nest::ConstData*> counted;
  double bytes = 0;
  for (const auto& segment : parts.segments)
    for (const nest::Array& array : segment->arrays)
      if (array.data && counted.insert(array.data.get()).second) bytes += static_cast<double>(array.data->bytes.size());
  return passes::kLeastFolding + passes::kFoldingPerByte * bytes;
}

}  // namespace

Result<Optimised> optimise(ir::Context& ctx, std::vector<Program>& programs, WeightStore& weights, const passes::Options& given, const Progress& progress,
                           bool for_devices) {
  Optimised optimised;
  passes::Parts& parts = optimised.processors;
  for (Program& program : programs) {
    program.method = method_of(program.function);
    if (const ir::Sym* rows = program.function.states.empty() ? nest::independent_rows(ctx, program.function) : nullptr) {
      const auto& dims = program.method.dims;
      const auto found = std::find_if(dims.begin(), dims.end(), [&](const format::Dim& d) { return d.name == rows->name; });
      if (found != dims.end()) program.method.batch = static_cast<uint32_t>(found - dims.begin());
    }
    MLC_RETURN_IF_ERROR(passes::partition(ctx, std::move(program.function), parts));
  }
  passes::Options options = given;
  double folding = folding_of(parts);
  if (!options.folding) options.folding = &folding;
  const std::vector<std::string> all = options.pipeline, of_devices = passes::for_devices(all, false, given.precision), of_tensor_devices = passes::for_devices(all, true, given.precision);
  // Up to the first pass that not all have.
  const auto common = std::mismatch(all.begin(), all.end(), of_devices.begin(), of_devices.end()).first - all.begin();
  const auto own = [&](const std::vector<std::string>& pipeline) { return std::vector<std::string>(pipeline.begin() + common, pipeline.end()); };
  const auto run = [&](passes::Parts& some, std::vector<std::string> pipeline) -> Status {
    options.pipeline = std::move(pipeline);
    for (const auto& segment : some.segments) MLC_RETURN_IF_ERROR(passes::run(ctx, *segment, options));
    return ok();
  };
  // Which constants other segments read is known where none has been joined.
  const auto joined = std::find(all.begin(), all.begin() + common, "join-products");
  options.pipeline = {all.begin(), joined};
  for (const auto& segment : parts.segments) {
    MLC_RETURN_IF_ERROR(passes::run(ctx, *segment, options));
    if (progress) progress(static_cast<size_t>(&segment - parts.segments.data()) + 1, parts.segments.size());
  }
  options.reads_elsewhere = passes::reads_elsewhere_in(parts.segments);
  MLC_RETURN_IF_ERROR(run(parts, {joined, all.begin() + common}));
  if (for_devices) {
    std::vector<std::string> names;
    for (const Program& program : programs) names.push_back(program.method.name);
    passes::number_parts(ctx, names, parts);
    optimised.devices = passes::copy_of(parts);
    optimised.tensor_devices = passes::copy_of(parts);
  }
  MLC_RETURN_IF_ERROR(run(parts, own(all)));
  MLC_RETURN_IF_ERROR(run(optimised.devices, own(of_devices)));
  MLC_RETURN_IF_ERROR(run(optimised.tensor_devices, own(of_tensor_devices)));
  for (passes::Parts* some : {&optimised.processors, &optimised.devices, &optimised.tensor_devices}) {
    passes::collect_derived(ctx, *some);
    MLC_RETURN_IF_ERROR(passes::cut_segments(ctx, *some));
    for (const auto& segment : some->segments)
      for (uint32_t array : passes::used_constants(*segment)) weights.add(*segment, array);
  }
  weights.seal();
  return optimised;
}

void add_program(container::ContainerBuilder& builder, const Program& program, double tolerance) {
  format::Method method = program.method;
  if (program.is_pipeline)
    for (format::Port& port : method.inputs)
      if (port.dtype == DType::U8 && port.dims.size() == 3) port.media = format::Media::Image;
  for (size_t k = 0; k < program.golden.ranges.size(); ++k)
    if (const Range range = program.golden.ranges[k]; range.is_bounded()) method.inputs[k].range = {range.lo, range.hi};
  const auto& before = builder.manifest.methods;
  for (uint32_t k = 0; k < before.size(); ++k)
    if (std::find(program.runs.begin(), program.runs.end(), before[k].name) != program.runs.end()) method.runs.push_back(k);
  const uint32_t handle = builder.add_method(std::move(method));
  if (program.is_default) builder.manifest.model.default_method = handle;
  for (const GoldenVector& golden : program.golden.vectors) {
    const bool given = std::all_of(golden.inputs.begin(), golden.inputs.end(), is_recorded);
    if (!given || std::none_of(golden.outputs.begin(), golden.outputs.end(), is_recorded)) continue;
    add_golden(builder, golden, golden_name(program.method.name, golden), handle, tolerance);
  }
}

void add_variant(container::ContainerBuilder& builder, CompiledVariant& compiled, const std::vector<Program>& programs, double tolerance) {
  const targets::Target& target = *compiled.target;
  format::Variant variant;
  variant.name = variant.target = target.name;
  target.emitter->require(target, compiled.module, variant);
  const bool portable = variant.module_format == format::ModuleFormat::Portable;  // runs anywhere, so it is always kept
  for (const std::string& service : compiled.services)
    variant.features.push_back(static_cast<uint32_t>(feature_named(std::string(kServicePrefix) + service)));
  std::sort(variant.features.begin(), variant.features.end());
  const auto& methods = builder.manifest.methods;
  for (uint32_t k = 0; k < methods.size() && !compiled.programs.empty(); ++k)
    if (std::find(compiled.programs.begin(), compiled.programs.end(), methods[k].name) != compiled.programs.end()) variant.methods.push_back(k);
  if (!portable) variant.audit = format::Audit{"mlpack", MLC_VERSION, {}};  // the digest is the builder's to fill in
  size_t outputs = 0;
  for (const Program& program : programs) outputs = std::max(outputs, program.method.outputs.size());
  for (uint32_t port = 0; port < outputs; ++port) variant.tolerance.push_back({port, format::Metric::Rel, tolerance});
  variant.module = builder.add_segment("code/" + target.name, format::SegmentKind::Module, !portable, std::move(compiled.module));
  variant.plan = builder.add_segment("plan/" + target.name, format::SegmentKind::Plan, !portable, std::move(compiled.plan));
  builder.add_variant(std::move(variant));
}

}  // namespace mlc::compile
