#include "packager/compile/golden/golden.h"
#include "schema/format.h"

namespace mlc::compile {
namespace {

// Beyond it a vector would tell nothing, even where errors were seen to move its answer further.
constexpr double kMaxSettledTolerance = 0.5;

}  // namespace

std::string golden_name(const std::string& program, const GoldenVector& golden) { return golden.name.empty() ? program : program + "/" + golden.name; }

double GoldenVector::tolerance_of(size_t output, double least) const {
  constexpr double kAsRounded = 1.5;
  const double rounded = output < rounding.size() ? kAsRounded * rounding[output] : 0;
  return std::max({least, (is_settled ? 2 : 4) * spread_of(output), rounded});
}

bool GoldenVector::tells(size_t output) const {
  const nest::Tensor& t = outputs[output];
  // Codes are numbers; what else is no float may be a place, of which one is as wrong as another.
  const bool may_move_far = is_settled && (is_float(t.dtype) || bits_of(t.dtype) <= 8);
  return is_recorded(t) && tolerance_of(output, 0) <= (may_move_far ? kMaxSettledTolerance : kMaxTolerance);
}

bool is_recorded(const nest::Tensor& t) { return t.list_depth == 0 && t.dtype != DType::Str; }

void add_golden(container::ContainerBuilder& builder, const GoldenVector& golden, const std::string& name, uint32_t method, double tolerance) {
  format::Golden entry;
  entry.name = name;
  entry.method = method;
  entry.entry = format::GoldenEntry::Run;
  const auto store = [&](const std::vector<nest::Tensor>& tensors, uint32_t port, std::vector<format::GoldenArray>& out) {
    const nest::Tensor& t = tensors[port];
    out.push_back(builder.golden_array(port, t.dtype, {t.shape.begin(), t.shape.end()}, t.bytes));
  };
  for (uint32_t port = 0; port < golden.inputs.size(); ++port)
    if (is_recorded(golden.inputs[port])) store(golden.inputs, port, entry.inputs);
  for (uint32_t port = 0; port < golden.outputs.size(); ++port)
    if (golden.tells(port)) store(golden.outputs, port, entry.outputs);
  // Dims that only the plan can compute are read off the outputs.
  const format::Method& described = builder.manifest.methods[method];
  std::map<std::string, int64_t> extents = golden.extents;
  for (size_t port = 0; port < golden.outputs.size(); ++port)
    for (size_t axis = 0; axis < golden.outputs[port].shape.size(); ++axis)
      if (auto dim = described.outputs[port].dims[axis].dim) extents.emplace(described.dims[*dim].name, golden.outputs[port].shape[axis]);
  for (const format::Dim& dim : described.dims) entry.bindings.push_back(extents[dim.name]);
  // Places and counts that no order of sums changes are equal: of a large index a thousandth is another one.
  constexpr double kUsual = 1e-3;
  for (const format::GoldenArray& output : entry.outputs) {
    const bool is_exact = !is_float(golden.outputs[output.port].dtype) && golden.spread_of(output.port) == 0 && golden.rounding.empty() && tolerance <= kUsual;
    if (is_exact) entry.tolerance.push_back({output.port, format::Metric::Abs, 0});
    else entry.tolerance.push_back({output.port, format::Metric::Rel, golden.tolerance_of(output.port, tolerance)});
  }
  builder.add_golden(std::move(entry));
}

}  // namespace mlc::compile
