#include "runtime/ensemble/measure/figures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/checked.h"
#include "schema/plan/shape_program.h"

namespace mlc::ensemble {
namespace {

using exec::Function;

double figure(exec::Symbol s, const std::vector<int64_t>& symbols) {
  return s == exec::kNoSymbol || symbols[s] < 0 ? 0 : static_cast<double>(symbols[s]);
}

uint64_t weights_of(const Function& f) {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  uint64_t bytes = 0;
  for (const exec::Buffer& b : f.buffers) {
    const bool is_constant = b.kind == exec::BufferKind::Constant || b.kind == exec::BufferKind::Derived;
    const uint32_t copy = b.kind == exec::BufferKind::Derived ? UINT32_MAX : b.copy;
    if (is_constant && seen.emplace(b.index, copy).second) bytes = checked_add(bytes, b.constant_bytes).value_or(UINT64_MAX);
  }
  return bytes;
}

Result<uint64_t> bytes_of_array(DType dtype, const std::vector<int64_t>& shape) {
  const auto elements = checked_product(shape);
  const auto bytes = elements ? checked_mul(*elements, bytes_of(dtype)) : std::nullopt;
  if (!bytes) return Status(Code::Resource, "an array is larger than there are addresses");
  return *bytes;
}

Result<SegmentWork> segment_work(const Function& f, std::vector<std::vector<int64_t>> shapes) {
  if (!f.elements.empty()) return Status(Code::Unsupported, "the extents in '{}' depend on elements of its inputs", f.name);
  SegmentWork out;
  const std::vector<exec::Shape> inputs(shapes.begin(), shapes.end());
  std::vector<int64_t> symbols;
  MLC_RETURN_IF_ERROR(exec::evaluate_shapes(f, inputs, {}, symbols));
  out.input_shapes = std::move(shapes);
  for (const exec::Port& p : f.outputs) {
    std::vector<int64_t>& shape = out.output_shapes.emplace_back();
    for (exec::Symbol s : p.shape) shape.push_back(symbols[s]);
  }
  for (const exec::Instr& in : f.body) {
    out.operations += figure(in.operations, symbols);
    out.bytes += figure(in.read, symbols) + figure(in.written, symbols);
  }
  out.weights = weights_of(f);
  out.arena = f.num_symbols > 0 ? static_cast<uint64_t>(std::max<int64_t>(0, symbols[f.arena_bytes])) : 0;
  return out;
}

}  // namespace

Result<ProgramWork> work_of(const exec::Plan& plan, const Function& program, std::span<const std::vector<int64_t>> input_shapes) {
  ProgramWork out;
  std::vector<std::vector<int64_t>> shapes(program.num_values);
  out.values.resize(program.num_values);
  if (input_shapes.size() != program.inputs.size())
    return Status(Code::InputMismatch, "{} shapes given, '{}' has {} inputs", input_shapes.size(), program.name, program.inputs.size());
  for (size_t i = 0; i < input_shapes.size(); ++i) {
    if (input_shapes[i].size() != program.inputs[i].axes())
      return Status(Code::InputMismatch, "input '{}': a shape of {} axes given, {} expected", program.inputs[i].name, input_shapes[i].size(), program.inputs[i].axes());
    shapes[i] = input_shapes[i];
    MLC_ASSIGN(out.values[i].bytes, bytes_of_array(program.inputs[i].dtype, shapes[i]));
  }
  for (uint32_t at = 0; at < program.steps.size(); ++at) {
    const exec::Step& step = program.steps[at];
    const Function& f = plan.functions[step.functions[0]];
    std::vector<std::vector<int64_t>> inputs;
    for (uint32_t v : step.inputs) {
      inputs.push_back(shapes[v]);
      out.values[v].readers.push_back(at);
    }
    MLC_ASSIGN(SegmentWork work, segment_work(f, std::move(inputs)));
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      const uint32_t v = step.outputs[k];
      if (v == exec::kNoValue) continue;
      shapes[v] = work.output_shapes[k];
      out.values[v].producer = at;
      MLC_ASSIGN(out.values[v].bytes, bytes_of_array(f.outputs[k].dtype, shapes[v]));
    }
    out.segments.push_back(std::move(work));
  }
  for (const exec::Port& p : program.outputs) out.values[p.value].readers.push_back(kCaller);
  return out;
}

}  // namespace mlc::ensemble
