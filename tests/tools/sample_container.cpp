// sample_container OUT [VERSION | rich | tensors N [LETTER] | large MIB TARGETS | foreign | parts FROM:LENGTH... | VERSION OPERATORS [PIPELINE]]: writes a small, unsigned, valid container for tests of the tools. What runs is of no
// interest here: plans and modules are opaque bytes. The weights have three leaves. A rich one has everything that a manifest
// can say, and the interface of a model with caches: forty inputs, extents that are computed. OPERATORS: how many versions of one
// operator it holds; PIPELINE: bytes of its pipeline.json, which are spaces. N: how many tensors without elements it has, whose long names begin
// with LETTER, x to z. MIB: how large the weights are, TARGETS: how many native variants there are, one to three. A foreign
// one has a variant of a megabyte that no machine can run. One of parts keeps a program whose constants are these parts of its one tensor of 600,000 floats.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "packager/container/builder.h"
#include "schema/features.h"
#include "tests/support/onnx_bytes.h"

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

// As exporters of decoders write them.
void add_caches(Method& method) {
  method.dims = {{"batch", 1, 8, 1}, {"num_samples", 1, INT64_MAX, 1}, {"width", 8, 640, 8}};
  const std::string frames = "select(floordiv((num_samples + 1), 64), 0, floordiv((num_samples + 1), 64) - 1)";
  std::string deep = frames;
  while (deep.size() < 900) deep += " + floordiv(width, 8)";
  for (int layer = 0; layer < 20; ++layer)
    for (const char* part : {"key", "value"}) {
      Port cache = port("past_key_values." + std::to_string(layer) + ".decoder." + part);
      cache.dims = {DimRef::symbol(0), DimRef::constant(8), DimRef::expression(frames), DimRef::constant(36)};
      method.inputs.push_back(cache);
      cache.name = "present." + std::to_string(layer) + ".decoder." + part;
      cache.dims[2] = DimRef::expression(deep);
      method.outputs.push_back(cache);
    }
}

// Their length is known when the run ends.
void add_results_of_the_run(Method& method) {
  for (int k = 0; k < 3; ++k) {
    Port cut = port("cut." + std::to_string(k) + ".state");
    cut.dims = {DimRef::symbol(0), DimRef::symbol(static_cast<uint32_t>(method.dims.size()))};
    method.dims.push_back({cut.name + ".1", 0, INT64_MAX, 1});
    method.outputs.push_back(cut);
  }
}

void make_rich(container::ContainerBuilder& builder, Method& method) {
  builder.manifest.model.title = "A sample";
  builder.manifest.model.licence = "CC0-1.0";
  builder.manifest.model.not_after = 4'102'444'800;
  builder.manifest.provenance.flags = {"--target=all"};
  builder.manifest.stages = {{"resize", "Resize", {{"mode", "bilinear"}}, ""}};
  constexpr std::string_view text = "op Twice(x: T[..]) -> y: T[..] { y[..] = x[..] + x[..] }";
  const auto bytes = std::as_bytes(std::span(text));
  builder.add_operator("org.example", "Twice", 1, {bytes.begin(), bytes.end()});
  Port picture = port("photo");
  picture.dims = {DimRef::symbol(2), DimRef::symbol(2), DimRef::constant(3)};
  picture.dtype = DType::U8;
  picture.media = Media::Image;
  picture.colour = Colour::Rgb;
  picture.range = {0, 255};
  picture.unit = "1";
  picture.doc = "what is to be recognised";
  picture.optional = true;
  Port words = port("words");
  words.dims.clear();
  words.list_depth = 1;
  method.core_inputs = method.inputs;
  method.core_outputs = method.outputs;
  method.state = {port("h")};
  method.inputs.push_back(picture);
  method.inputs.push_back(words);
  Port audio = port("audio");
  audio.dims = {DimRef::symbol(0), DimRef::symbol(1)};
  method.inputs.push_back(audio);
  add_caches(method);
  add_results_of_the_run(method);
}

struct Part {
  uint64_t from = 0, length = 0;
};

struct Wanted {
  uint64_t version = 7;
  bool rich = false;
  uint32_t operators = 0;
  size_t pipeline = 0;
  uint32_t tensors = 0;
  std::string tensor_names = "x";  // "w" is there
  uint64_t weight_rows = 600'000;  // 2.4 MB
  uint32_t targets = 1;
  bool foreign = false;
  std::vector<Part> parts;
};

// A program, as the file would keep it: outputs that are parts of its tensor.
void add_program(container::ContainerBuilder& builder, const Digest& tensor, const std::vector<Part>& parts) {
  namespace onnx = test::onnx_bytes;
  onnx::GraphParts graph;
  for (const Part& part : parts) {
    const std::string number = std::to_string(graph.nodes.size()), constant = "w" + number, output = "y" + number;
    graph.initializers.push_back(onnx::tensor(constant, onnx::kFloat, {static_cast<int64_t>(part.length)}, onnx::external_part("sha256:" + to_hex(tensor), 0, part.from)));
    graph.nodes.push_back(onnx::node("Identity", {constant}, {output}));
    graph.outputs.push_back(onnx::value_info(output, onnx::kFloat, {static_cast<int64_t>(part.length)}));
  }
  const std::string_view options = "{}";
  std::string bytes = "MLCPROG1";
  for (unsigned k = 0; k < 4; ++k) bytes += static_cast<char>(options.size() >> 8 * k);
  bytes += std::string(options) + onnx::model_file(onnx::graph(graph));
  const auto view = std::as_bytes(std::span(bytes));
  const uint32_t segment = builder.add_segment("program", SegmentKind::PortableIr, /*droppable=*/true, std::vector<std::byte>(view.begin(), view.end()));
  builder.manifest.portable = PortableIr{PortableLevel::Model, 1, segment};
}

// Nothing of a file, much of a manifest.
Status add_empty_tensors(container::ContainerBuilder& builder, uint32_t count, const std::string& names) {
  constexpr size_t kLongestName = 255;
  const std::vector<uint64_t> shape{0};
  for (uint32_t k = 0; k < count; ++k) {
    std::string name = names + std::to_string(100'000'000 + k);  // names ascend
    name += std::string(kLongestName - name.size(), 't');
    if (auto tensor = builder.add_tensor(name, DType::F32, shape, tensor_digest(DType::F32, shape, {})); !tensor.ok()) return tensor.status();
  }
  return ok();
}

struct Native {
  std::string name;
  unsigned seed = 0;
  size_t module_bytes = 5000;
  int64_t page_divides = 65'536;
};

void add_native(container::ContainerBuilder& builder, const Variant& portable, const Native& of) {
  const std::string& name = of.name;
  Variant native = portable;
  native.name = name;
  native.family = "cpu";
  native.module_format = ModuleFormat::Elf;
  native.target = name;
  native.plan = builder.add_segment("plan/" + name, SegmentKind::Plan, true, pattern(300, of.seed + 4));
  native.module = builder.add_segment("code/" + name, SegmentKind::Module, true, pattern(of.module_bytes, of.seed + 5));
  native.features = {static_cast<uint32_t>(Feature::X86Sse42)};
  native.clauses = {{static_cast<uint32_t>(Feature::OsPageSize), ClauseOp::Divides, {of.page_divides}}};
  native.audit = Audit{"none", "1", {}};
  builder.add_variant(native);
}

Status write_sample(const std::string& path, const Wanted& wanted) {
  const auto& [version, rich, operators, pipeline, tensors, tensor_names, rows, targets, foreign, parts] = wanted;
  container::ContainerBuilder builder;
  builder.manifest.model.id = "acme/sample";
  builder.manifest.model.version = version;
  builder.manifest.provenance.tool = "sample_container";
  builder.manifest.provenance.tool_version = "1";
  builder.manifest.provenance.source_name = "sample.onnx";
  for (uint32_t k = 0; k < operators; ++k) builder.add_operator("org.example", "Same", k + 1, {pattern(16, k)});

  Method method;
  method.name = "main";
  method.inputs = {port("x")};
  method.outputs = {port("y")};
  if (rich) make_rich(builder, method);
  const uint32_t main_method = builder.add_method(method);

  const uint32_t weights = builder.add_segment("weights", SegmentKind::Weights);
  auto content = pattern(rows * 4, 1);
  const std::vector<uint64_t> shape{rows};
  const Digest digest = tensor_digest(DType::F32, shape, content);
  MLC_ASSIGN(const uint32_t tensor, builder.add_tensor("w", DType::F32, shape, digest));
  const uint32_t layout = builder.layout("dense");
  MLC_RETURN_IF_ERROR(builder.add_copy(tensor, layout, weights, std::move(content)));
  MLC_RETURN_IF_ERROR(add_empty_tensors(builder, tensors, tensor_names));
  if (!parts.empty()) add_program(builder, digest, parts);

  Variant portable;
  portable.name = "portable";
  portable.family = "portable";
  portable.module_format = ModuleFormat::Portable;
  portable.target = "portable";
  portable.plan = builder.add_segment("plan/portable", SegmentKind::Plan, false, pattern(300, 2));
  portable.module = builder.add_segment("code/portable", SegmentKind::Module, false, pattern(500, 3));
  portable.layouts = {layout};
  if (rich) {
    portable.tolerance = {{0, Metric::Rel, 1e-4}};
    portable.memory = Memory{1000, 2000, 500};
  }
  builder.add_variant(portable);
  for (uint32_t k = 0; k < targets; ++k) add_native(builder, portable, {.name = "x86-64-v" + std::to_string(k + 2), .seed = 10 * k});
  if (foreign) add_native(builder, portable, {.name = "foreign", .seed = 100, .module_bytes = 1'000'000, .page_divides = 1});

  constexpr std::string_view labels = "cat\ndog\nbird\nfish\n";
  const auto label_bytes = std::as_bytes(std::span(labels));
  builder.add_asset("labels.txt", "text/plain", {label_bytes.begin(), label_bytes.end()});

  if (pipeline > 0) builder.add_asset("pipeline.json", "application/json", std::vector<std::byte>(pipeline, std::byte{' '}));

  Golden golden;
  golden.name = "ones";
  golden.method = main_method;
  golden.inputs = {builder.golden_array(0, DType::F32, {4}, pattern(16, 6))};
  golden.outputs = {builder.golden_array(0, DType::F32, {4}, pattern(16, 7))};
  if (rich) {
    golden.entry = GoldenEntry::Core;
    golden.bindings = {1, 100, 64, 5, 5, 5};
    golden.tolerance = {{0, Metric::Abs, 1e-4}};
  }
  builder.add_golden(golden);
  return builder.write(path, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[2] : "";
  if (argc < 2 || (argc > 5 && what != "parts")) {
    std::fprintf(stderr, "usage: sample_container OUT [VERSION | rich | tensors N [LETTER] | large MIB TARGETS | foreign | parts FROM:LENGTH... | VERSION OPERATORS [PIPELINE]]\n");
    return 2;
  }
  const auto number = [&](int k) { return argc > k ? std::strtoull(argv[k], nullptr, 10) : 0; };
  Wanted wanted;
  if (what == "rich") wanted.rich = true;
  else if (what == "tensors") wanted.tensors = static_cast<uint32_t>(number(3)), wanted.tensor_names = argc > 4 ? argv[4] : "x";
  else if (what == "foreign") wanted.foreign = true;
  else if (what == "parts")
    for (int k = 3; k < argc; ++k) {
      char* colon = nullptr;
      const uint64_t from = std::strtoull(argv[k], &colon, 10);
      wanted.parts.push_back({from, *colon ? std::strtoull(colon + 1, nullptr, 10) : 0});
    }
  else if (what == "large") wanted.weight_rows = number(3) << 18, wanted.targets = static_cast<uint32_t>(number(4));
  else if (argc > 2) wanted.version = number(2), wanted.operators = static_cast<uint32_t>(number(3)), wanted.pipeline = static_cast<size_t>(number(4));
  const Status status = write_sample(argv[1], wanted);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str());
  return static_cast<int>(status.code);
}
