// The C API on a container whose native variant really runs: y = b * 3 x + i from a compiled test module, with a weight, a
// golden vector and an asset. The portable form is garbage on purpose: whoever is led to it notices.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "packager/container/builder.h"
#include "packager/plan/print.h"
#include "runtime/api/golden.h"
#include "runtime/api/mlc.h"
#include "runtime/probe/probe.h"
#include "signing/keys.h"
#include "tests/support/test_modules.h"

using namespace mlc;

namespace {

const MlcApi& lib() { return *mlc_get_api(MLC_API_VERSION); }

template <class T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& v) {
  const auto span = std::as_bytes(std::span(v));
  return {span.begin(), span.end()};
}

// main: y[n] = 3 x[n] + index, of any n in whole tiles of 16; kernel 0 of module_source.c. rows: a list without and with
// one of its items, and that item.
std::vector<std::byte> plan_bytes(int64_t factor) {
  const auto plan = plan::parse(R"(plan function "main" {
    $0 = const 4 $1 = const 16 $2 = dim 0 0 $3 = const )" + std::to_string(factor) + R"( $4 = mul $2 $0 $5 = ceildiv $2 $1
    $6 = const 0
    buffer #0 f32 bytes $4 input 0 buffer #1 f32 bytes $4 output 0
    input "x" f32 [$2] #0 output "y" f32 [$2] #1 arena $6
    launch 0 (#0, #1) ($3) tiles $5 static "scale"
  }
  function "rows" {
    input "l" f32 list 1 %0
    input "p" i64 [] %1
    output "item" f32 rank 1 %2
    output "both" f32 list 2 %4
    %2 = at (%0, %1) "SequenceAt_0"
    %3 = erase (%0, %1)
    %4 = make (%3, %0)
  })");
  REQUIRE_MESSAGE(plan.ok(), plan.status().text());
  return plan::encode(*plan);
}

struct Sample {
  signing::PrivateKey key;
  std::string public_key_file, signed_file, unsigned_file;
};

// Made once per test program; null where the compiler of the modules is missing.
const Sample* sample(int64_t native_factor = 3) {
  static std::map<int64_t, std::unique_ptr<Sample>> samples;
  if (auto i = samples.find(native_factor); i != samples.end()) return i->second.get();
  auto& slot = samples[native_factor];
  const auto module = test::compile_module(probe::host().machine, "tests/support/module_source.c");
  if (module.empty()) return nullptr;
  auto key = signing::PrivateKey::generate(signing::KeyType::P256);
  REQUIRE(key.ok());
  const auto folder = std::filesystem::temp_directory_path() / ("mlc-api-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string stem = (folder / ("sample" + std::to_string(native_factor))).string();
  slot = std::make_unique<Sample>(Sample{std::move(*key), stem + ".pem", stem + ".mlc", stem + "-unsigned.mlc"});

  container::ContainerBuilder b;
  b.manifest.model.id = "test/sample";
  b.manifest.provenance.tool = "api_test";
  b.manifest.provenance.tool_version = "1";
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
  b.add_asset("labels.txt", "text/plain", bytes_of_values(std::vector<char>{'a', '\n', 'b', '\n'}));

  format::Variant native;
  native.name = native.target = "native-test";
  native.family = "cpu";
  native.module_format = format::ModuleFormat::Elf;
  native.clauses.push_back({static_cast<uint32_t>(Feature::HostArch), format::ClauseOp::Equal,
                            {static_cast<int64_t>(probe::host().machine)}});
  native.audit = format::Audit{"api_test", "1", {}};
  native.plan = b.add_segment("plan/native-test", format::SegmentKind::Plan, true, plan_bytes(native_factor));
  native.module = b.add_segment("code/native-test", format::SegmentKind::Module, true, module);
  b.add_variant(native);
  format::Variant alien = native;
  alien.name = alien.target = "alien";
  alien.clauses[0].values = {1};
  b.add_variant(alien);
  format::Variant portable;
  portable.name = portable.target = portable.family = "portable";
  portable.module_format = format::ModuleFormat::Portable;
  portable.plan = b.add_segment("plan/portable", format::SegmentKind::Plan, false, plan_bytes(3));
  portable.module = b.add_segment("code/portable", format::SegmentKind::Module, false, std::vector<std::byte>(64));
  b.add_variant(portable);

  format::Golden golden;
  golden.name = "first";
  golden.method = main;
  golden.entry = format::GoldenEntry::Run;
  golden.bindings = {4};
  golden.inputs.push_back(b.golden_array(0, DType::F32, {4}, bytes_of_values(std::vector<float>{1, 2, 3, 4})));
  golden.outputs.push_back(b.golden_array(0, DType::F32, {4}, bytes_of_values(std::vector<float>{3, 7, 11, 15})));
  golden.tolerance.push_back({0, format::Metric::Rel, 1e-6});
  b.add_golden(golden);

  REQUIRE_MESSAGE(b.finish().ok(), b.finish().text());
  REQUIRE(b.write(slot->signed_file, &slot->key).ok());
  REQUIRE(b.write(slot->unsigned_file, nullptr).ok());
  const std::string pem = slot->key.public_key().pem();
  std::ofstream(slot->public_key_file) << pem;
  return slot.get();
}

#define NEED_SAMPLE(name, ...)                                     \
  const Sample* name = sample(__VA_ARGS__);                        \
  if (!name) {                                                     \
    MESSAGE("skipped: clang-19 or ld.lld-19 is missing");          \
    return;                                                        \
  }

// A model or the code and text of why there is none.
struct Opened {
  MlcModel* model = nullptr;
  int code = 0;
  std::string text;
  Opened() = default;
  Opened(const Opened&) = delete;
  ~Opened() { lib().model_release(model); }
};

void open(Opened& out, const std::string& path, const std::string& key, bool allow_unsigned = false) {
  const char* keys[] = {key.c_str()};
  MlcOpenOptions o{};
  o.size = sizeof o;
  o.path = path.c_str();
  o.allow_unsigned = allow_unsigned;
  if (!key.empty()) o.trust_keys = keys, o.num_trust_keys = 1;
  MlcError* error = nullptr;
  out.code = lib().open(&o, &out.model, &error);
  out.text = lib().error_text(error);
  CHECK(lib().error_code(error) == out.code);
  lib().error_release(error);
}

}  // namespace

TEST_CASE("the getter answers the versions it knows and nothing else") {
  CHECK(mlc_get_api(0) == nullptr);
  CHECK(mlc_get_api(MLC_API_VERSION + 1) == nullptr);
  REQUIRE(mlc_get_api(1));
  CHECK(lib().size == sizeof(MlcApi));
  CHECK(std::strlen(mlc_version_string()) > 0);
  lib().error_release(nullptr);
  lib().session_release(nullptr);
  lib().model_release(nullptr);
}

TEST_CASE("a signed and trusted container runs its native variant, in the caller's memory and in its own") {
  NEED_SAMPLE(s);
  Opened m;
  open(m, s->signed_file, s->public_key_file);
  REQUIRE_MESSAGE(m.code == MLC_OK, m.text);
  MlcModelInfo info;
  lib().model_info(m.model, &info);
  CHECK(info.native_allowed == 1);
  CHECK(std::string(info.id) == "test/sample");
  CHECK(std::strlen(info.root) == 64);
  MlcPort port;
  REQUIRE(lib().port(m.model, 0, 0, 0, &port) == MLC_OK);
  CHECK(port.extents[0] == -1);
  CHECK(std::string(port.dims[0]) == "N");
  CHECK(port.max[0] == 1024);
  CHECK(lib().port(m.model, 0, 0, 1, &port) == MLC_USAGE);
  const void* labels = nullptr;
  uint64_t length = 0;
  REQUIRE(lib().part(m.model, "labels.txt", &labels, &length, nullptr) == MLC_OK);
  CHECK(length == 4);
  CHECK(lib().part(m.model, "none.txt", &labels, &length, nullptr) == MLC_NOT_FOUND);

  for (uint32_t threads : {1u, 2u}) {
    MlcSession* session = nullptr;
    MlcSessionOptions o{};
    o.size = sizeof o;
    o.threads = threads;
    REQUIRE(lib().session_create(m.model, &o, &session, nullptr) == MLC_OK);
    MlcSessionInfo si;
    lib().session_info(session, &si);
    CHECK(std::string(si.variant) == "native-test");
    CHECK(si.threads <= threads);
    for (int64_t n : {1, 40, 1000}) {
      std::vector<float> x(static_cast<size_t>(n), 2.0f), y(static_cast<size_t>(n));
      const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
      MlcTensor out[1] = {mlc_tensor(y.data(), MLC_F32, 1, &n)};
      REQUIRE(lib().run(session, &in, 1, out, 1, nullptr) == MLC_OK);
      MlcTensor theirs{};
      theirs.name = "y";
      REQUIRE(lib().run_program(session, "main", &in, 1, &theirs, 1, nullptr) == MLC_OK);
      CHECK(theirs.rank == 1);
      CHECK(theirs.shape[0] == n);
      for (int64_t i = 0; i < n; ++i) {
        CHECK(y[static_cast<size_t>(i)] == 6 + float(i));
        CHECK(static_cast<float*>(theirs.data)[i] == 6 + float(i));
      }
    }
    lib().session_release(session);
  }
}

TEST_CASE("inputs are checked: name, type, rank, size, missing, twice, unknown program") {
  NEED_SAMPLE(s);
  Opened m;
  open(m, s->signed_file, s->public_key_file);
  REQUIRE(m.code == MLC_OK);
  MlcSession* session = nullptr;
  REQUIRE(lib().session_create(m.model, nullptr, &session, nullptr) == MLC_OK);
  alignas(64) float x[16] = {};
  const int64_t shape[2] = {16, 1};
  const auto why = [&](std::vector<MlcTensor> in, const char* program = "main") {
    MlcError* error = nullptr;
    const int code = lib().run_program(session, program, in.data(), static_cast<uint32_t>(in.size()), nullptr, 0, &error);
    std::string text = code == MLC_OK ? "" : lib().error_text(error);
    lib().error_release(error);
    return text;
  };
  const MlcTensor good = mlc_tensor(x, MLC_F32, 1, shape);
  CHECK(why({good}).empty());
  MlcTensor t = good;
  t.name = "z";
  CHECK(why({t}).find("no 'z'") != std::string::npos);
  CHECK(why({}).find("missing") != std::string::npos);
  CHECK(why({good, good}).find("more tensors") != std::string::npos);
  t.name = "x";
  CHECK(why({t, t}).find("twice") != std::string::npos);
  CHECK(why({mlc_tensor(x, MLC_F32, 2, shape)}).find("axes") != std::string::npos);
  CHECK(why({mlc_tensor(x, MLC_I32, 1, shape)}).find("found i32, expected f32") != std::string::npos);
  t = good;
  t.bytes = 63;
  CHECK(why({t}).find("63 bytes") != std::string::npos);
  t = good;
  t.dtype = static_cast<MlcDType>(99);
  CHECK(why({t}).find("no valid type") != std::string::npos);
  CHECK(why({good}, "mean").find("no program 'mean'") != std::string::npos);
  MlcTensor inferred{};
  REQUIRE(lib().infer_shapes(session, "main", &good, 1, &inferred, 1, nullptr) == MLC_OK);
  CHECK(inferred.shape[0] == 16);
  CHECK(inferred.bytes == 64);
  lib().session_release(session);
}

TEST_CASE("without trust native code is not run: not signed, signed by a stranger, and --allow-unsigned") {
  NEED_SAMPLE(s);
  for (const std::string& file : {s->unsigned_file, s->signed_file}) {
    Opened m;
    open(m, file, "");
    REQUIRE_MESSAGE(m.code == MLC_OK, m.text);
    MlcModelInfo info;
    lib().model_info(m.model, &info);
    CHECK(info.native_allowed == 0);
    CHECK(std::strlen(info.trust) > 0);
    MlcVariant v;
    for (uint32_t i = 0; i < info.num_variants; ++i) {
      REQUIRE(lib().explain(m.model, i, &v) == MLC_OK);
      CHECK((v.fits == MLC_FITS) == (std::string(v.name) == "portable"));
    }
    // The portable form of this file is garbage, so the session fails: it does not fall back to native code.
    MlcSession* session = nullptr;
    CHECK(lib().session_create(m.model, nullptr, &session, nullptr) != MLC_OK);
    CHECK(session == nullptr);
    MlcSessionOptions o{};
    o.size = sizeof o;
    o.variant = "native-test";
    CHECK(lib().session_create(m.model, &o, &session, nullptr) == MLC_NO_VARIANT);
    o.variant = nullptr;
    o.require = "native";
    CHECK(lib().session_create(m.model, &o, &session, nullptr) == MLC_NO_VARIANT);

    Opened allowed;
    open(allowed, file, "", true);
    REQUIRE(allowed.code == MLC_OK);
    REQUIRE(lib().session_create(allowed.model, nullptr, &session, nullptr) == MLC_OK);
    lib().session_release(session);
  }
}

TEST_CASE("explain names each failing clause, and a variant that does not fit is refused by name") {
  NEED_SAMPLE(s);
  Opened m;
  open(m, s->signed_file, s->public_key_file);
  REQUIRE(m.code == MLC_OK);
  MlcVariant v;
  uint32_t alien = 0;
  while (lib().explain(m.model, alien, &v) == MLC_OK && std::string(v.name) != "alien") ++alien;
  CHECK(v.fits == MLC_FITS_NOT);
  MlcClause clause;
  REQUIRE(v.num_failing == 1);
  REQUIRE(lib().failing(m.model, alien, 0, &clause) == MLC_OK);
  CHECK(std::string(clause.clause) == "host.arch == 1");
  CHECK(lib().failing(m.model, alien, 1, &clause) == MLC_USAGE);
  uint32_t chosen = 99;
  REQUIRE(lib().choose(m.model, nullptr, nullptr, &chosen, nullptr) == MLC_OK);
  REQUIRE(lib().explain(m.model, chosen, &v) == MLC_OK);
  CHECK(std::string(v.name) == "native-test");
  CHECK(lib().choose(m.model, "alien", nullptr, &chosen, nullptr) == MLC_NO_VARIANT);
  CHECK(lib().choose(m.model, "nobody", nullptr, &chosen, nullptr) == MLC_USAGE);
}

TEST_CASE("the self-test passes on right code and fails on code that computes something else") {
  for (int64_t factor : {3, 4}) {
    NEED_SAMPLE(s, factor);
    Opened m;
    open(m, s->signed_file, s->public_key_file);
    REQUIRE(m.code == MLC_OK);
    MlcSession* session = nullptr;
    MlcSessionOptions o{};
    o.size = sizeof o;
    o.variant = "native-test";
    REQUIRE(lib().session_create(m.model, &o, &session, nullptr) == MLC_OK);
    MlcSelftest result;
    MlcError* error = nullptr;
    const int code = lib().selftest(session, &result, &error);
    CHECK(result.vectors == 1);
    CHECK(code == (factor == 3 ? MLC_OK : MLC_SELFTEST));
    if (factor != 3) {
      CHECK(result.failures == 1);
      CHECK(std::string(result.text).find("y[3] is 19, expected 15") != std::string::npos);
    }
    lib().error_release(error);
    CHECK(lib().selftest_one(session, "first", &result, nullptr) == code);
    CHECK(result.vectors == 1);
    CHECK(lib().selftest_one(session, "second", &result, nullptr) == MLC_NOT_FOUND);
    lib().session_release(session);
  }
}

TEST_CASE("lists go in and out; sizes that only a run tells are told by it") {
  NEED_SAMPLE(s);
  Opened m;
  open(m, s->signed_file, s->public_key_file);
  REQUIRE(m.model);
  MlcPort port;
  REQUIRE(lib().port(m.model, 1, 0, 0, &port) == MLC_OK);
  CHECK(port.list_depth == 1);
  MlcSession* session = nullptr;
  REQUIRE(lib().session_create(m.model, nullptr, &session, nullptr) == MLC_OK);
  float a[] = {1, 2, 3}, b[] = {4};
  const int64_t three = 3, one = 1;
  int64_t position = -1;
  const MlcTensor items[] = {mlc_tensor(a, MLC_F32, 1, &three), mlc_tensor(b, MLC_F32, 1, &one)};
  MlcTensor list{};
  list.list_depth = 1;
  list.num_items = 2;
  list.items = items;
  MlcTensor in[] = {list, mlc_tensor(&position, MLC_I64, 0, nullptr)}, out[2] = {};
  const auto run = [&](uint32_t first = 0) {
    MlcError* error = nullptr;
    in[1].name = "p";
    const int code = lib().run_program(session, "rows", in + first, 2 - first, out, 2, &error);
    const std::string text = lib().error_text(error);
    lib().error_release(error);
    return code == MLC_OK ? std::string() : text;
  };
  for (int round = 0; round < 2; ++round) {
    out[0] = out[1] = {};
    REQUIRE(run() == "");
    CHECK(out[0].bytes == 4);
    CHECK(*static_cast<float*>(out[0].data) == 4);
    REQUIRE(out[1].num_items == 2);
    CHECK(out[1].list_depth == 2);
    CHECK(out[1].items[0].num_items == 1);
    REQUIRE(out[1].items[1].num_items == 2);
    CHECK(out[1].items[1].items[0].shape[0] == 3);
    CHECK(static_cast<float*>(out[1].items[1].items[0].data)[2] == 3);
    CHECK(out[1].items[1].items[1].list_depth == 0);
  }
  CHECK(run(1).find("position -1 in a list of 0") != std::string::npos);  // a list that is not given is empty
  in[0].list_depth = 2;
  CHECK(run().find("lists 2 deep found, 1 expected") != std::string::npos);
  in[0].list_depth = 1;
  in[0].items = nullptr;
  CHECK(run().find("no such list") != std::string::npos);
  in[0] = items[0];
  CHECK(run().find("lists 0 deep found") != std::string::npos);
  in[0] = list;
  MlcError* error = nullptr;
  CHECK(lib().infer_shapes(session, "rows", in, 2, out, 2, &error) == MLC_UNSUPPORTED);
  CHECK(std::string(lib().error_text(error)).find("only after a run") != std::string::npos);
  lib().error_release(error);
  lib().session_release(session);
}

TEST_CASE("sessions of one model run at the same time on several threads") {
  NEED_SAMPLE(s);
  Opened m;
  open(m, s->signed_file, s->public_key_file);
  REQUIRE(m.code == MLC_OK);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      MlcSession* session = nullptr;
      MlcSessionOptions o{};
      o.size = sizeof o;
      o.threads = 1;
      if (lib().session_create(m.model, &o, &session, nullptr) != MLC_OK) return void(++wrong);
      const int64_t n = 100;
      std::vector<float> x(100, float(t)), y(100);
      const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
      for (int round = 0; round < 50; ++round) {
        MlcTensor out[1] = {mlc_tensor(y.data(), MLC_F32, 1, &n)};
        if (lib().run(session, &in, 1, out, 1, nullptr) != MLC_OK || y[99] != float(3 * t + 99)) ++wrong;
      }
      lib().session_release(session);
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a flipped byte anywhere in the container is a message or harmless, never another answer") {
  NEED_SAMPLE(s);
  const auto good = test::read_bytes(s->signed_file);
  REQUIRE(good.size() > 4096);
  const char* keys[] = {s->public_key_file.c_str()};
  alignas(64) float x[16] = {1, 2, 3, 4}, y[16];
  const int64_t n = 4;
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); at += 13) {
    auto bad = good;
    bad[at] ^= std::byte{0x20};
    MlcOpenOptions o{};
    o.size = sizeof o;
    o.memory = bad.data();
    o.memory_bytes = bad.size();
    o.trust_keys = keys;
    o.num_trust_keys = 1;
    MlcModel* model = nullptr;
    MlcSession* session = nullptr;
    MlcError* error = nullptr;
    const MlcTensor in = mlc_tensor(x, MLC_F32, 1, &n);
    MlcTensor out[1] = {mlc_tensor(y, MLC_F32, 1, &n)};
    int code = lib().open(&o, &model, &error);
    if (code == MLC_OK) code = lib().session_create(model, nullptr, &session, &error);
    if (code == MLC_OK) code = lib().run(session, &in, 1, out, 1, &error);
    if (code == MLC_OK) {
      CHECK(y[3] == 15);
    } else {
      ++refused;
      CHECK(std::strlen(lib().error_message(error)) > 0);
    }
    lib().error_release(error);
    lib().session_release(session);
    lib().model_release(model);
  }
  CHECK(refused > 0);
}

TEST_CASE("missing files, directories, garbage and senseless options are errors with their codes") {
  Opened missing, folder, garbage;
  open(missing, "/nonexistent/x.mlc", "");
  CHECK(missing.code == MLC_NOT_FOUND);
  open(folder, "/tmp", "");
  CHECK(folder.code != MLC_OK);
  open(garbage, "/proc/self/exe", "");
  CHECK(garbage.code == MLC_MALFORMED);
  MlcModel* model = nullptr;
  CHECK(lib().open(nullptr, &model, nullptr) == MLC_USAGE);
  MlcOpenOptions o{};
  o.size = sizeof o;
  CHECK(lib().open(&o, &model, nullptr) == MLC_USAGE);
  o.path = "x";
  o.verify = 17;
  CHECK(lib().open(&o, &model, nullptr) == MLC_USAGE);
  CHECK(lib().session_create(nullptr, nullptr, nullptr, nullptr) == MLC_USAGE);
}

TEST_CASE("comparing arrays: every element type, NaN, infinity, metrics") {
  using namespace mlc::api;
  const auto compare = [](DType t, const auto& found, const auto& expected) {
    return compare_arrays(t, std::as_bytes(std::span(found)), std::as_bytes(std::span(expected)));
  };
  const float inf = INFINITY, nan = NAN;
  const Difference d = compare(DType::F32, std::vector<float>{1, 2, 4.5f}, std::vector<float>{1, 2, 4});
  CHECK(d.max_abs == 0.5);
  CHECK(d.max_rel == 0.125);
  CHECK(d.worst == 2);
  CHECK(within(d, {0, format::Metric::Rel, 0.125}));
  CHECK(!within(d, {0, format::Metric::Rel, 0.124}));
  CHECK(within(d, {0, format::Metric::Abs, 0.5}));
  CHECK(!within(d, {0, format::Metric::None, 0}));
  CHECK(within(d, {0, format::Metric::Cosine, 0.99}));
  CHECK(!within(d, {0, format::Metric::Cosine, 0.99999}));
  CHECK(compare(DType::F32, std::vector<float>{nan, inf}, std::vector<float>{nan, inf}).max_abs == 0);
  CHECK(!within(compare(DType::F32, std::vector<float>{nan}, std::vector<float>{1}), {0, format::Metric::Abs, 1e9}));
  CHECK(!within(compare(DType::F32, std::vector<float>{inf}, std::vector<float>{-inf}), {0, format::Metric::Rel, 1e9}));
  const float next = std::nextafter(1.0f, 2.0f);
  CHECK(within(compare(DType::F32, std::vector<float>{next}, std::vector<float>{1}), {0, format::Metric::Ulp, 1}));
  CHECK(compare(DType::F32, std::vector<float>{-0x1p-149f}, std::vector<float>{0x1p-149f}).max_ulp == 2);
  CHECK(compare(DType::F16, std::vector<uint16_t>{0x3c00, 0xc000}, std::vector<uint16_t>{0x3c00, 0x4000}).max_abs == 4);
  CHECK(compare(DType::BF16, std::vector<uint16_t>{0x3f80}, std::vector<uint16_t>{0x4000}).max_abs == 1);
  CHECK(compare(DType::F8E4M3, std::vector<uint8_t>{0x38}, std::vector<uint8_t>{0x40}).max_abs == 1);
  CHECK(compare(DType::F8E5M2, std::vector<uint8_t>{0x3c}, std::vector<uint8_t>{0x40}).max_abs == 1);
  CHECK(compare(DType::I64, std::vector<int64_t>{-5}, std::vector<int64_t>{7}).max_abs == 12);
  CHECK(compare(DType::U8, std::vector<uint8_t>{255}, std::vector<uint8_t>{0}).max_abs == 255);
}
