// sample_container OUT [VERSION]: writes a small, unsigned, valid container for tests of the tools. What runs is of no
// interest here: plans and modules are opaque bytes. The weights have three leaves.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "packager/container/builder.h"
#include "schema/features.h"

using namespace mlc;
using namespace mlc::format;

namespace {

std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  uint32_t state = seed;
  for (std::byte& b : bytes) b = static_cast<std::byte>((state = state * 1'664'525 + 1'013'904'223) >> 24);
  return bytes;
}

Port port(std::string name) {
  Port p;
  p.name = std::move(name);
  p.dtype = DType::F32;
  p.dims = {DimRef::constant(4)};
  return p;
}

Status write_sample(const std::string& path, uint64_t version) {
  container::ContainerBuilder builder;
  builder.manifest.model.id = "acme/sample";
  builder.manifest.model.version = version;
  builder.manifest.provenance.tool = "sample_container";
  builder.manifest.provenance.tool_version = "1";
  builder.manifest.provenance.source_name = "sample.onnx";

  Method method;
  method.name = "main";
  method.inputs = {port("x")};
  method.outputs = {port("y")};
  const uint32_t main_method = builder.add_method(method);

  const uint32_t weights = builder.add_segment("weights", SegmentKind::Weights);
  const uint64_t rows = 600'000;  // 2.4 MB
  auto content = pattern(rows * 4, 1);
  const std::vector<uint64_t> shape{rows};
  MLC_ASSIGN(const uint32_t tensor,
             builder.add_tensor("w", DType::F32, shape, tensor_digest(DType::F32, shape, content)));
  const uint32_t layout = builder.layout("dense");
  MLC_RETURN_IF_ERROR(builder.add_copy(tensor, layout, weights, std::move(content)));

  Variant portable;
  portable.name = "portable";
  portable.family = "portable";
  portable.module_format = ModuleFormat::Portable;
  portable.target = "portable";
  portable.plan = builder.add_segment("plan/portable", SegmentKind::Plan, false, pattern(300, 2));
  portable.module = builder.add_segment("code/portable", SegmentKind::Module, false, pattern(500, 3));
  portable.layouts = {layout};
  builder.add_variant(portable);
  Variant native = portable;
  native.name = "x86-64-v2";
  native.family = "cpu";
  native.module_format = ModuleFormat::Elf;
  native.target = "x86-64-v2";
  native.plan = builder.add_segment("plan/x86-64-v2", SegmentKind::Plan, true, pattern(300, 4));
  native.module = builder.add_segment("code/x86-64-v2", SegmentKind::Module, true, pattern(5000, 5));
  native.features = {static_cast<uint32_t>(Feature::X86Sse42)};
  native.clauses = {{static_cast<uint32_t>(Feature::OsPageSize), ClauseOp::Divides, {65'536}}};
  native.audit = Audit{"none", "1", {}};
  builder.add_variant(native);

  constexpr std::string_view labels = "cat\ndog\nbird\nfish\n";
  const auto label_bytes = std::as_bytes(std::span(labels));
  builder.add_asset("labels.txt", "text/plain", {label_bytes.begin(), label_bytes.end()});

  Golden golden;
  golden.name = "ones";
  golden.method = main_method;
  golden.inputs = {builder.golden_array(0, DType::F32, {4}, pattern(16, 6))};
  golden.outputs = {builder.golden_array(0, DType::F32, {4}, pattern(16, 7))};
  builder.add_golden(golden);
  return builder.write(path, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: sample_container OUT [VERSION]\n");
    return 2;
  }
  const Status status = write_sample(argv[1], argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 7);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str());
  return static_cast<int>(status.code);
}
