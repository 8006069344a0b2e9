// plan_container OUT PLAN [--module FILE] [--weights FILE] [--pipeline FILE] [--feature NAME]...: writes an unsigned container
// with nothing but a portable variant, from a plan in text form (packager/plan/print.h) and, if the plan launches any, the
// portable module with its kernels. Nothing of it is checked: it is for files that an enemy would make.
//
// The ports of `main` are those of the plan. --weights: the bytes of a tensor u8 [n], constant 0 of the plan.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "packager/container/builder.h"
#include "packager/plan/print.h"
#include "schema/features.h"
#include "schema/portable_code.h"

using namespace mlc;
using namespace mlc::format;

namespace {

struct Arguments {
  std::string out, plan, module, weights, pipeline;
  std::vector<uint32_t> features;
};

std::optional<Arguments> arguments_of(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) return std::nullopt;
  Arguments a{argv[1], argv[2], {}, {}, {}, {}};
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--module") a.module = argv[i + 1];
    else if (flag == "--weights") a.weights = argv[i + 1];
    else if (flag == "--pipeline") a.pipeline = argv[i + 1];
    else if (flag == "--feature") a.features.push_back(static_cast<uint32_t>(feature_named(argv[i + 1])));
    else return std::nullopt;
  }
  return a;
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::NotFound, "{} cannot be read", path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

// A module without kernels.
std::vector<std::byte> empty_module() {
  std::vector<std::byte> bytes(portable::kModuleHeaderLen);
  std::memcpy(bytes.data(), &portable::kMagic, sizeof portable::kMagic);  // little-endian hosts only
  std::memcpy(bytes.data() + 4, &portable::kVersion, sizeof portable::kVersion);
  return bytes;
}

Port port_of(const exec::Function& f, const exec::Port& port, Method& method) {
  Port out;
  out.name = port.name;
  out.dtype = port.dtype;
  out.list_depth = port.list_depth;
  for (size_t axis = 0; axis < (port.list_depth > 0 ? 0 : port.axes()); ++axis) {
    std::optional<int64_t> fixed;
    for (const exec::SymbolInstr& i : f.shape)
      if (i.op == exec::SymbolOp::Const && !port.shape.empty() && i.dst == port.shape[axis]) fixed = i.imm;
    if (fixed) {
      out.dims.push_back(DimRef::constant(*fixed));
    } else {
      out.dims.push_back(DimRef::symbol(static_cast<uint32_t>(method.dims.size())));
      method.dims.push_back({"D" + std::to_string(method.dims.size()), 0, int64_t{1} << 40, 1});
    }
  }
  return out;
}

Status write_container(const Arguments& a) {
  MLC_ASSIGN(const auto text, read_file(a.plan));
  MLC_ASSIGN(const exec::Plan plan, plan::parse({reinterpret_cast<const char*>(text.data()), text.size()}));
  std::vector<std::byte> module = empty_module();
  if (!a.module.empty()) {
    MLC_ASSIGN(module, read_file(a.module));
  }
  container::ContainerBuilder builder;
  builder.manifest.model.id = "local/stranger";
  builder.manifest.model.version = 1;
  builder.manifest.provenance.tool = "plan_container";
  builder.manifest.provenance.tool_version = "1";
  builder.manifest.provenance.source_name = a.plan;

  Method method;
  method.name = "main";
  for (const exec::Function& f : plan.functions) {
    if (f.name != method.name) continue;
    for (const exec::Port& p : f.inputs) method.inputs.push_back(port_of(f, p, method));
    for (const exec::Port& p : f.outputs) method.outputs.push_back(port_of(f, p, method));
  }
  builder.add_method(method);

  Variant portable;
  portable.name = portable.family = portable.target = "portable";
  portable.module_format = ModuleFormat::Portable;
  portable.plan = builder.add_segment("plan/portable", SegmentKind::Plan, true, plan::encode(plan));
  portable.module = builder.add_segment("code/portable", SegmentKind::Module, true, std::move(module));
  portable.features = a.features;
  if (!a.weights.empty()) {
    MLC_ASSIGN(auto content, read_file(a.weights));
    const uint32_t segment = builder.add_segment("weights", SegmentKind::Weights);
    const std::vector<uint64_t> shape{content.size()};
    MLC_ASSIGN(const uint32_t tensor, builder.add_tensor("w", DType::U8, shape, tensor_digest(DType::U8, shape, content)));
    portable.layouts = {builder.layout("dense")};
    MLC_RETURN_IF_ERROR(builder.add_copy(tensor, portable.layouts[0], segment, std::move(content)));
  }
  builder.add_variant(portable);
  if (!a.pipeline.empty()) {
    MLC_ASSIGN(auto pipeline, read_file(a.pipeline));
    builder.add_asset("pipeline.json", "pipeline", std::move(pipeline));
  }
  return builder.write(a.out, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = arguments_of(argc, argv);
  if (!arguments) {
    std::fprintf(stderr, "usage: plan_container OUT PLAN [--module FILE] [--weights FILE] [--pipeline FILE] [--feature NAME]...\n");
    return 2;
  }
  const Status status = write_container(*arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str());
  return static_cast<int>(status.code);
}
