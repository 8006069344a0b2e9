// A small but complete container for tests: two programs, three variants, tensors in two layouts, assets, golden
// vectors, a custom operator. Its code is not runnable; tests of the container do not run anything.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "packager/container/builder.h"
#include "runtime/container/container.h"
#include "signing/hash_tree.h"
#include "signing/keys.h"
#include "signing/policy.h"

namespace mlc::test {

inline std::vector<std::byte> bytes_of(std::string_view text) {
  auto span = std::as_bytes(std::span(text.data(), text.size()));
  return {span.begin(), span.end()};
}
// Bytes that do not compress, the same for the same seed on every machine.
inline std::vector<std::byte> noise(size_t len, uint32_t seed) {
  std::vector<std::byte> out(len);
  for (auto& b : out) {
    seed = seed * 1664525u + 1013904223u;
    b = static_cast<std::byte>(seed >> 24);
  }
  return out;
}
inline std::vector<std::byte> floats(std::initializer_list<float> values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}

// A key that lives as long as the test program, and a trust set that holds it.
inline const signing::PrivateKey& test_key() {
  static const signing::PrivateKey key = [] {
    auto made = signing::PrivateKey::generate(signing::KeyType::P256);
    if (!made.ok()) std::abort();
    return std::move(made).value();
  }();
  return key;
}
inline const signing::TrustSet& test_trust() {
  static const signing::TrustSet trust = [] {
    std::vector<signing::TrustedKey> keys;
    keys.push_back({.key = test_key().public_key(), .name = "test"});
    return signing::TrustSet::of(std::move(keys));
  }();
  return trust;
}
inline container::OpenOptions trusting(container::Verify verify = container::Verify::Lazy) {
  container::OpenOptions options;
  options.verify = verify;
  options.trust = &test_trust();
  return options;
}

struct SampleOptions {
  size_t weights_len = 2048;  // of the tensor "c.table"; 64 KiB and more make a page segment
  size_t module_len = 700;
};

// Adds a method with one input and one output of dims [N, 4] and a golden vector for it.
inline uint32_t add_sample_method(container::ContainerBuilder& b, const std::string& name,
                                  std::optional<uint32_t> labels) {
  format::Port in, out;
  in.name = "input";
  in.dtype = DType::F32;
  in.dims = {format::DimRef::symbol(0), format::DimRef::constant(4)};
  out = in;
  out.name = "scores";
  out.media = format::Media::Classes;
  out.labels = labels;
  out.label_axis = 1;
  out.range = {0.0, 1.0};
  format::Method method;
  method.name = name;
  method.dims = {{"N", 1, 8, 1}};
  method.inputs = {in};
  method.outputs = {out};
  uint32_t handle = b.add_method(method);
  format::Golden golden;
  golden.name = name + " 1";
  golden.method = handle;
  golden.bindings = {1};
  golden.inputs = {b.golden_array(0, DType::F32, {1, 4}, floats({1, 2, 3, 4}))};
  golden.outputs = {b.golden_array(0, DType::F32, {1, 4}, floats({0.1f, 0.2f, 0.3f, 0.4f}))};
  golden.tolerance = {{0, format::Metric::Rel, 1e-4}};
  b.add_golden(golden);
  return handle;
}

inline void add_sample_variant(container::ContainerBuilder& b, const std::string& name, bool portable, uint32_t layout,
                               size_t module_len) {
  format::Variant v;
  v.name = name;
  v.family = portable ? "portable" : "cpu";
  v.target = name;
  v.module_format = portable ? format::ModuleFormat::Portable : format::ModuleFormat::Elf;
  v.plan = b.add_segment("plan/" + name, format::SegmentKind::Plan, !portable, bytes_of("plan of " + name));
  v.module = b.add_segment("code/" + name, format::SegmentKind::Module, !portable,
                           noise(module_len, static_cast<uint32_t>(name.size())));
  v.layouts = {layout};
  v.tolerance = {{0, format::Metric::Rel, 1e-4}};
  if (!portable) {
    v.features = {7, 3};
    v.clauses = {{5, format::ClauseOp::AtLeast, {32}}};
    v.audit = format::Audit{"test", "1", {}};
  }
  b.add_variant(v);
}

inline container::ContainerBuilder sample_builder(const SampleOptions& options = {}) {
  container::ContainerBuilder b;
  b.manifest.model = {.id = "local/sample", .version = 3, .title = "A sample", .licence = "CC0-1.0"};
  b.manifest.provenance.tool = "mlpack";
  b.manifest.provenance.tool_version = "0.1.0";
  b.manifest.provenance.source_name = "sample.onnx";
  b.manifest.provenance.source = sha256("sample");
  b.manifest.provenance.flags = {"--target=all"};
  uint32_t weights = b.add_segment("weights", format::SegmentKind::Weights);
  uint32_t dense = b.layout("dense");
  uint32_t panel = b.layout("K,N->[N/16][K/1][16][1]");
  auto add = [&](const char* name, std::vector<uint64_t> shape, uint32_t layout, std::vector<std::byte> content) {
    auto tensor = b.add_tensor(name, DType::F32, std::move(shape), sha256(content));
    if (!tensor.ok() || !b.add_copy(*tensor, layout, weights, std::move(content)).ok()) std::abort();
  };
  add("a.weight", {3, 20}, panel, noise(2 * 3 * 16 * 4, 1));
  add("b.bias", {5}, dense, floats({1, 2, 3, 4, 5}));
  add("c.table", {options.weights_len / 4}, dense, noise(options.weights_len / 4 * 4, 2));
  if (!b.add_tensor("d.empty", DType::I64, {0, 3}, sha256("")).ok()) std::abort();
  uint32_t labels = b.add_asset("labels.txt", "labels", bytes_of("cat\ndog\nbird\nfish\n"));
  b.add_asset("charset.txt", "charset", bytes_of("abc"));
  add_sample_method(b, "main", labels);
  b.manifest.model.default_method = 0;
  add_sample_method(b, "classify", std::nullopt);
  add_sample_variant(b, "x86-64-v3", false, panel, options.module_len);
  add_sample_variant(b, "portable", true, panel, 90);
  add_sample_variant(b, "armv8-a", false, panel, options.module_len);
  b.add_operator("org.example", "Twice", 1, bytes_of("op Twice(x: T[..]) -> y: T[..] { y[..] = x[..] + x[..] }"));
  b.manifest.stages = {{"resize", "Resize", {{"mode", "bilinear"}}, ""}};
  return b;
}

inline std::vector<std::byte> sample_bytes(const SampleOptions& options = {},
                                           const signing::PrivateKey* key = &test_key()) {
  auto bytes = sample_builder(options).to_bytes(key);
  if (!bytes.ok()) std::abort();
  return std::move(bytes).value();
}

}  // namespace mlc::test
