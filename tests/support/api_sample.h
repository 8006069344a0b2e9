// A container with code that runs: y[i] = a x[i] + w[i], w[k] = k, compiled by the packager's own emitters for this
// machine and as portable code, with a weight, a golden vector, an asset, programs on lists and with state, and a variant for no machine at
// all. The portable form has a = 3 and so has the native one, unless the test wants to see which of them answers.
#pragma once

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "packager/container/builder.h"
#include "packager/loop/verify.h"
#include "packager/plan/text.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "runtime/probe/probe.h"
#include "signing/hash_tree.h"
#include "signing/keys.h"
#include "targets/target.h"
#include "tests/text/loop_text.h"

namespace mlc::test {

inline const MlcApi& lib() { return *mlc_get_api(MLC_API_VERSION); }

template <class T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& v) {
  const auto span = std::as_bytes(std::span(v));
  return {span.begin(), span.end()};
}

// As long as a segment must be to be mapped instead of being copied.
inline std::vector<std::byte> sample_weight() {
  std::vector<float> w(16384);
  for (size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(k);
  return bytes_of_values(w);
}

// A tile is 16 elements.
inline std::vector<std::byte> sample_module(const targets::Target& target) {
  ir::Context ctx;
  auto kernels = loop::parse(ctx, R"(
kernel "scale" tiles (floordiv (add $ "n" 15) 16) range %b %e {
  param "x" f32 array 0
  param "w" f32 array 1
  param "y" f32 out array 2
  scalar "a"
  scalar "n"
  for %i = (mul %b 16) .. (min (mul %e 16) $ "n") step 1 {
    store 2 [%i] (add.f32 (mul.f32 (cast.f32 $ "a") (load.f32 0 %i)) (load.f32 1 %i))
  }
}
)");
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? std::string() : kernels.status().text()));
  REQUIRE_MESSAGE(loop::verify((*kernels)[0]).ok(), loop::verify((*kernels)[0]).text());
  auto module = targets::emit_module(target, *kernels);
  REQUIRE_MESSAGE(module.ok(), (module.ok() ? std::string() : module.status().text()));
  return std::move(module->bytes);
}

// main: the kernel. rows: a list without and with one of its items, and that item. shift: the x of the run before.
inline std::vector<std::byte> sample_plan(int64_t factor) {
  const auto plan = plan::parse(R"(plan function "main" {
    $0 = const 4 $1 = const 16 $2 = dim 0 0 $3 = const )" + std::to_string(factor) + R"( $4 = mul $2 $0 $5 = ceildiv $2 $1
    $6 = const 0 $7 = const 65536
    buffer #0 f32 bytes $4 input 0 buffer #1 f32 bytes $7 constant 0 copy 0 buffer #2 f32 bytes $4 output 0
    input "x" f32 [$2] #0 output "y" f32 [$2] #2 arena $6
    launch 0 (#0, #1, #2) ($3, $2) tiles $5 "scale"
  }
  function "rows" {
    input "l" f32 list 1 %0
    input "p" i64 [] %1
    output "item" f32 rank 1 %2
    output "both" f32 list 2 %4
    %2 = list_at (%0, %1) "SequenceAt_0"
    %3 = list_erase (%0, %1)
    %4 = list_make (%3, %0)
  }
  function "shift" {
    $0 = dim 0 0 $1 = const 4 $2 = mul $0 $1 $3 = const 0
    buffer #0 f32 bytes $2 input 0 buffer #1 f32 bytes $2 output 0 buffer #2 f32 bytes $2 state 0
    input "x" f32 [$0] #0 output "y" f32 [$0] #1 arena $3
    copy (#1, #2)
    copy (#2, #0)
  })");
  REQUIRE_MESSAGE(plan.ok(), plan.status().text());
  return plan::encode(*plan);
}

inline void add_sample_programs(container::ContainerBuilder& b) {
  format::Method method;
  method.name = "main";
  method.dims.push_back({"N", 1, 1024, 1});
  format::Port port;
  port.dtype = DType::F32;
  port.dims = {format::DimRef::symbol(0)};
  port.name = "x";
  method.inputs = {port};
  port.name = "y";
  method.outputs = {port};
  const uint32_t main = b.add_method(method);
  format::Method rows;
  rows.name = "rows";
  rows.dims.push_back({"M", 0, 1024, 1});
  port.name = "item";
  rows.outputs = {port};
  port.name = "both";
  port.dims.clear();
  port.list_depth = 2;
  rows.outputs.push_back(port);
  port.name = "l";
  port.list_depth = 1;
  rows.inputs = {port};
  port.name = "p";
  port.list_depth = 0;
  port.dtype = DType::I64;
  rows.inputs.push_back(port);
  b.add_method(rows);
  format::Method shift = method;
  shift.name = "shift";
  port.dtype = DType::F32;
  port.name = "before";
  port.dims = {format::DimRef::symbol(0)};
  shift.state = {port};
  const uint32_t shift_method = b.add_method(shift);
  format::Golden golden;
  golden.name = "first";
  golden.method = main;
  golden.entry = format::GoldenEntry::Run;
  golden.bindings = {4};
  golden.inputs.push_back(b.golden_array(0, DType::F32, {4}, bytes_of_values(std::vector<float>{1, 2, 3, 4})));
  golden.outputs.push_back(b.golden_array(0, DType::F32, {4}, bytes_of_values(std::vector<float>{3, 7, 11, 15})));
  golden.tolerance.push_back({0, format::Metric::Rel, 1e-6});
  b.add_golden(golden);
  format::Golden zeros;
  zeros.name = "zeros";
  zeros.method = shift_method;
  zeros.entry = format::GoldenEntry::Run;
  zeros.bindings = {2};
  zeros.inputs.push_back(b.golden_array(0, DType::F32, {2}, bytes_of_values(std::vector<float>{5, 6})));
  zeros.outputs.push_back(b.golden_array(0, DType::F32, {2}, bytes_of_values(std::vector<float>{0, 0})));
  b.add_golden(zeros);
}

// Variants, in the order of the manifest: alien, native-test, portable.
inline void add_sample_variants(container::ContainerBuilder& b, uint32_t layout, int64_t native_factor) {
  format::Variant native;
  native.name = native.target = "native-test";
  native.family = "cpu";
  native.module_format = format::ModuleFormat::Elf;
  native.layouts = {layout};
  native.clauses.push_back({static_cast<uint32_t>(Feature::HostArch), format::ClauseOp::Equal,
                            {static_cast<int64_t>(probe::host().machine)}});
  native.features = {static_cast<uint32_t>(Feature::OsCodePages)};
  native.audit = format::Audit{"api_test", "1", {}};
  native.plan = b.add_segment("plan/native-test", format::SegmentKind::Plan, true, sample_plan(native_factor));
  native.module = b.add_segment("code/native-test", format::SegmentKind::Module, true, sample_module(*targets::native_target()));
  b.add_variant(native);
  format::Variant alien = native;
  alien.name = alien.target = "alien";
  alien.clauses[0].values = {1};
  b.add_variant(alien);
  format::Variant portable;
  portable.name = portable.target = portable.family = "portable";
  portable.module_format = format::ModuleFormat::Portable;
  portable.layouts = {layout};
  portable.plan = b.add_segment("plan/portable", format::SegmentKind::Plan, false, sample_plan(3));
  portable.module = b.add_segment("code/portable", format::SegmentKind::Module, false, sample_module(*targets::find_target("portable")));
  b.add_variant(portable);
}

struct ApiSample {
  signing::PrivateKey key;
  std::string folder, public_key_file, signed_file, unsigned_file;
};

// Made once per test program and factor, in a folder that is removed when the program ends.
inline const ApiSample& api_sample(int64_t native_factor = 3) {
  struct Samples {
    std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-api-" + std::to_string(getpid()));
    std::map<int64_t, std::unique_ptr<ApiSample>> made;
    Samples() { std::filesystem::create_directories(folder); }
    ~Samples() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  };
  static Samples samples;
  auto& slot = samples.made[native_factor];
  if (slot) return *slot;
  auto key = signing::PrivateKey::generate(signing::KeyType::P256);
  REQUIRE(key.ok());
  const std::string stem = (samples.folder / ("sample" + std::to_string(native_factor))).string();
  auto sample = std::make_unique<ApiSample>(ApiSample{std::move(*key), samples.folder.string(), stem + ".pem", stem + ".mlc", stem + "-unsigned.mlc"});

  container::ContainerBuilder b;
  b.manifest.model.id = "test/sample";
  b.manifest.model.version = 7;
  b.manifest.provenance.tool = "api_test";
  b.manifest.provenance.tool_version = "1";
  auto weight = sample_weight();
  const uint32_t weights = b.add_segment("weights", format::SegmentKind::Weights), dense = b.layout("dense");
  const auto tensor = b.add_tensor("w", DType::F32, {16384}, sha256(weight));
  REQUIRE(tensor.ok());
  REQUIRE(b.add_copy(*tensor, dense, weights, std::move(weight)).ok());
  add_sample_programs(b);
  b.add_asset("labels.txt", "text/plain", bytes_of_values(std::vector<char>{'a', '\n', 'b', '\n'}));
  add_sample_variants(b, dense, native_factor);
  const Status finished = b.finish();
  REQUIRE_MESSAGE(finished.ok(), finished.text());
  REQUIRE(b.write(sample->signed_file, &sample->key).ok());
  REQUIRE(b.write(sample->unsigned_file, nullptr).ok());
  std::ofstream(sample->public_key_file) << sample->key.public_key().pem();
  slot = std::move(sample);
  return *slot;
}

// What a call says: its code and its error, which is released.
struct Told {
  int code = 0, number = 0;
  std::string text, message, help;
  std::vector<std::string> facts;
};
template <class Call>
Told told_by(const Call& call) {
  MlcError* error = nullptr;
  const int code = call(&error);
  Told told{code, lib().error_number(error), lib().error_text(error), lib().error_message(error), lib().error_help(error), {}};
  for (uint32_t k = 0; const char* fact = lib().error_fact(error, k); ++k) told.facts.emplace_back(fact);
  CHECK(lib().error_code(error) == code);
  lib().error_release(error);
  return told;
}

// A model, or why there is none.
struct Opened {
  MlcModel* model = nullptr;
  Told told;

  explicit Opened(const MlcOpenOptions& options) {
    told = told_by([&](MlcError** error) { return lib().open(&options, &model, error); });
    CHECK((model != nullptr) == (told.code == MLC_OK));
  }
  Opened(const std::string& path, const std::string& key, bool allow_unsigned = false) : Opened(options_of(path, key, allow_unsigned)) {}
  Opened(const Opened&) = delete;
  ~Opened() { lib().model_release(model); }
  MlcModelInfo info() const {
    auto out = sized<MlcModelInfo>();
    CHECK(lib().model_info(model, &out) == MLC_OK);
    return out;
  }

 private:
  static MlcOpenOptions options_of(const std::string& path, const std::string& key, bool allow_unsigned) {
    thread_local const char* keys[1];
    keys[0] = key.c_str();
    auto o = sized<MlcOpenOptions>();
    o.path = path.c_str();
    o.allow_unsigned = allow_unsigned;
    if (!key.empty()) o.trust_keys = keys, o.num_trust_keys = 1;
    return o;
  }
};

struct Session {
  MlcSession* session = nullptr;
  Told told;

  explicit Session(const Opened& opened, const char* variant = nullptr, uint32_t threads = 0, const char* require = nullptr)
      : Session(opened, options_of(variant, threads, require)) {}
  Session(const Opened& opened, const MlcSessionOptions& o) {
    REQUIRE_MESSAGE(opened.model, opened.told.text);
    told = told_by([&](MlcError** error) { return lib().session_create(opened.model, &o, &session, error); });
    CHECK((session != nullptr) == (told.code == MLC_OK));
  }
  Session(const Session&) = delete;
  ~Session() { lib().session_release(session); }
  MlcSessionInfo info() const {
    auto out = sized<MlcSessionInfo>();
    CHECK(lib().session_info(session, &out) == MLC_OK);
    return out;
  }
  std::string variant() const { return session ? info().variant : "none"; }

  // Of a program; outputs may be left out.
  Told run(const char* program, std::vector<MlcTensor> in, std::vector<MlcTensor>* out = nullptr, MlcCancel* cancel = nullptr) {
    auto how = sized<MlcRunOptions>();
    how.program = program;
    how.cancel = cancel;
    return told_by([&](MlcError** error) {
      return lib().run(session, &how, in.data(), static_cast<uint32_t>(in.size()), out ? out->data() : nullptr,
                       out ? static_cast<uint32_t>(out->size()) : 0, error);
    });
  }
  // y of main for n values x, from memory of the session.
  std::vector<float> answer(std::vector<float> x) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<MlcTensor> out(1);
    const Told ran = run("main", {mlc_tensor(x.data(), MLC_F32, 1, &n)}, &out);
    REQUIRE_MESSAGE(ran.code == MLC_OK, ran.text);
    const auto* y = static_cast<const float*>(out[0].data);
    return {y, y + out[0].bytes / 4};
  }

 private:
  static MlcSessionOptions options_of(const char* variant, uint32_t threads, const char* require) {
    auto o = sized<MlcSessionOptions>();
    o.variant = variant;
    o.require = require;
    o.threads = threads;
    return o;
  }
};

// What main answers, with a = `factor`.
inline std::vector<float> expected_answer(const std::vector<float>& x, float factor = 3) {
  std::vector<float> y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(factor * x[i] + static_cast<float>(i));
  return y;
}

}  // namespace mlc::test
