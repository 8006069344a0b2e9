// Unsigned containers with nothing but a portable variant, from a plan in text form (packager/plan/print.h): what a stranger
// may send. Nothing of the plan, the module or the pipeline is checked here.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "packager/container/builder.h"
#include "packager/plan/text.h"
#include "schema/features.h"
#include "schema/portable_code.h"

namespace mlc::test {

struct PlanContainer {
  std::string plan;                // text; the ports of its function `main` are those of the container
  std::vector<std::byte> module;   // portable code; empty: a module without kernels
  std::vector<std::byte> weights;  // constant 0 of the plan: u8 [n]; none if empty
  std::string pipeline;            // pipeline.json; none if empty
  std::vector<uint32_t> features;  // that the variant declares
  // Changes what the manifest says of `main` behind the back of the plan. May be empty.
  std::function<void(format::Method&)> said = {};
  std::string tensors = {};  // so many without elements are named so, with a number of seven digits behind
  uint32_t num_tensors = 0;
};

inline std::vector<std::byte> module_without_kernels() {
  std::vector<std::byte> bytes(portable::kModuleHeaderLen);
  std::memcpy(bytes.data(), &portable::kMagic, sizeof portable::kMagic);  // little-endian hosts only
  std::memcpy(bytes.data() + 4, &portable::kVersion, sizeof portable::kVersion);
  return bytes;
}

// Extents are free but where the plan fixes those of an input.
inline format::Port container_port(const exec::Function& f, const exec::Port& port, bool is_input, format::Method& method) {
  format::Port out;
  out.name = port.name;
  out.dtype = port.dtype;
  out.list_depth = port.list_depth;
  for (size_t axis = 0; axis < (port.list_depth > 0 ? 0 : port.axes()); ++axis) {
    std::optional<int64_t> fixed;
    for (const exec::SymbolInstr& i : f.shape)
      if (i.op == exec::SymbolOp::Const && is_input && i.dst == port.shape[axis]) fixed = i.imm;
    if (fixed) {
      out.dims.push_back(format::DimRef::constant(*fixed));
    } else {
      out.dims.push_back(format::DimRef::symbol(static_cast<uint32_t>(method.dims.size())));
      method.dims.push_back({"D" + std::to_string(method.dims.size()), 0, int64_t{1} << 40, 1});
    }
  }
  return out;
}

// Zeros for every array, of one element along free axes: a vector that is there because it must be, not because it is right.
inline format::Golden golden_of_zeros(container::ContainerBuilder& builder, const format::Method& method) {
  format::Golden golden;
  golden.name = "zeros";
  golden.bindings.assign(method.dims.size(), 1);
  const auto add = [&](const std::vector<format::Port>& ports, std::vector<format::GoldenArray>& out) {
    for (uint32_t k = 0; k < ports.size(); ++k) {
      if (ports[k].list_depth > 0) continue;
      std::vector<uint64_t> shape;
      uint64_t bytes = bytes_of(ports[k].dtype);
      for (const format::DimRef& d : ports[k].dims) {
        shape.push_back(static_cast<uint64_t>(d.extent.value_or(1)));
        bytes *= shape.back();
      }
      out.push_back(builder.golden_array(k, ports[k].dtype, shape, std::vector<std::byte>(bytes)));
    }
  };
  add(method.inputs, golden.inputs);
  add(method.outputs, golden.outputs);
  for (uint32_t k = 0; k < method.outputs.size(); ++k) golden.tolerance.push_back({k, format::Metric::Rel, 1e-4});
  return golden;
}

inline Result<std::vector<std::byte>> container_of(PlanContainer parts) {
  using namespace format;
  MLC_ASSIGN(const exec::Plan plan, plan::parse(parts.plan));
  container::ContainerBuilder builder;
  builder.manifest.model.id = "local/stranger";
  builder.manifest.model.version = 1;
  builder.manifest.provenance.tool = "plan_container";
  builder.manifest.provenance.tool_version = "1";
  builder.manifest.provenance.source_name = "plan.txt";

  Method method;
  method.name = "main";
  for (const exec::Function& f : plan.functions) {
    if (f.name != method.name) continue;
    for (const exec::Port& p : f.inputs) method.inputs.push_back(container_port(f, p, true, method));
    for (const exec::Port& p : f.outputs) method.outputs.push_back(container_port(f, p, false, method));
  }
  if (parts.said) parts.said(method);
  Golden golden = golden_of_zeros(builder, method);
  golden.method = builder.add_method(method);
  builder.add_golden(std::move(golden));

  Variant portable;
  portable.name = portable.family = portable.target = "portable";
  portable.module_format = ModuleFormat::Portable;
  portable.plan = builder.add_segment("plan/portable", SegmentKind::Plan, false, plan::encode(plan));
  if (parts.module.empty()) parts.module = module_without_kernels();
  portable.module = builder.add_segment("code/portable", SegmentKind::Module, false, std::move(parts.module));
  portable.features = parts.features;
  for (uint32_t k = 0; k < parts.num_tensors; ++k) {
    const std::vector<uint64_t> shape{0};
    MLC_ASSIGN([[maybe_unused]] const uint32_t tensor,
               builder.add_tensor(parts.tensors + std::to_string(1'000'000 + k), DType::U8, shape, tensor_digest(DType::U8, shape, {})));
  }
  if (!parts.weights.empty()) {
    const uint32_t segment = builder.add_segment("weights", SegmentKind::Weights);
    const std::vector<uint64_t> shape{parts.weights.size()};
    MLC_ASSIGN(const uint32_t tensor,
               builder.add_tensor("w", DType::U8, shape, tensor_digest(DType::U8, shape, parts.weights)));
    portable.layouts = {builder.layout("dense")};
    MLC_RETURN_IF_ERROR(builder.add_copy(tensor, portable.layouts[0], segment, std::move(parts.weights)));
  }
  builder.add_variant(portable);
  if (!parts.pipeline.empty()) {
    const auto text = std::as_bytes(std::span(parts.pipeline));
    builder.add_asset("pipeline.json", "pipeline", {text.begin(), text.end()});
  }
  return builder.to_bytes(nullptr);
}

}  // namespace mlc::test
