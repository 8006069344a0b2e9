// What a file gets whose native code may not run, through the C table: spec/untrusted.md.
#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/sanitized.h"
#include "runtime/api/mlc.h"
#include "runtime/api/session/untrusted.h"
#include "runtime/api/sized.h"
#include "tests/support/containers/plan_container.h"
#include "tests/support/portable_assembler.h"

using namespace mlc;
using test::Assembler;
using test::PlanContainer;
using Op = portable::Op;

namespace {

const MlcApi& lib() { return *mlc_get_api(MLC_API_VERSION); }
const uint32_t kImageDecode = static_cast<uint32_t>(Feature::AppImageDecode);

// 64 bytes of u8 through kernel 0.
const char* const kOneKernel = R"(plan function "main" {
  $0 = dim 0 0 $1 = const 64 $2 = const 0 $3 = const 1
  buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0
  input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2
  launch 0 (#0, #1) () tiles $3
})";
const char* const kEndlessProgram = R"(plan function "main" {
  $0 = const 64
  input "x" u8 [$0] %0
  %1 = loop "main/body" carried 1 (-, -, %0)
  output "y" u8 rank 1 %1
}
function "main/body" {
  $0 = const 64
  input "i" i64 [] %0 input "c" bool [] %1 input "x" u8 [$0] %2
  output "c" bool rank 0 %1 output "x" u8 rank 1 %2
})";
const char* const kDecoder = R"(plan function "main" {
  $0 = dim 0 0
  input "x" u8 [$0] %0
  %1 = host "image.decode" "RGB" u8 [-1, -1, 3] (%0)
  output "y" u8 rank 3 %1
})";

std::vector<std::byte> spinning_kernel() {
  Assembler a;
  a.params = {0, portable::kParamWritten};
  a.scalars = 0;
  a.add(Op::Const, Assembler::kJ, Assembler::kNone, Assembler::kNone, Assembler::kNone, INT64_MAX);
  a.add(Op::Const, Assembler::kM, Assembler::kNone, Assembler::kNone, Assembler::kNone, 1);
  a.add(Op::WhileBegin, Assembler::kI, Assembler::kJ).add(Op::WhileTest, Assembler::kNone, Assembler::kM);
  a.add(Op::WhileEnd, Assembler::kNone);
  return a.bytes();
}
// y[0..64) = x[0..64), whatever the length of x; or y itself.
std::vector<std::byte> copying_kernel(bool from_output = false) {
  Assembler a;
  a.params = {0, portable::kParamWritten};
  a.scalars = 0;
  a.registers = {{portable::Kind::I64, 1}, {portable::Kind::I32, 64}};
  a.add(Op::Const, 0);
  a.add(Op::Load, 1, 0, Assembler::kNone, Assembler::kNone, 0, DType::U8, from_output ? 1 : 0);
  a.add(Op::Store, Assembler::kNone, 0, Assembler::kNone, 1, 0, DType::U8, 1);
  return a.bytes();
}

struct Opened {
  std::vector<std::byte> room;
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  int code = 0;
  std::string text;

  explicit Opened(PlanContainer parts, MlcSessionOptions limits = {}, std::vector<const char*> services = {},
                  const MlcService* offered = nullptr) {
    auto built = test::container_of(std::move(parts));
    REQUIRE_MESSAGE(built.ok(), (built.ok() ? std::string() : built.status().text()));
    room.resize(built->size() + 512, std::byte{'S'});  // secrets behind
    std::byte* const at = room.data() + (256 - reinterpret_cast<uintptr_t>(room.data()) % 256);
    std::memcpy(at, built->data(), built->size());
    auto o = sized<MlcOpenOptions>();
    o.memory = at;
    o.memory_bytes = built->size();
    o.services = offered;
    o.num_services = offered ? 1 : 0;
    o.untrusted_services = services.data();
    o.num_untrusted_services = static_cast<uint32_t>(services.size());
    limits.size = sizeof limits;
    if (limits.threads == 0) limits.threads = 1;
    MlcError* error = nullptr;
    code = lib().open(&o, &model, &error);
    if (code == MLC_OK) code = lib().session_create(model, &limits, &session, &error);
    text = lib().error_text(error);
    lib().error_release(error);
  }
  Opened(const Opened&) = delete;
  ~Opened() {
    lib().session_release(session);
    lib().model_release(model);
  }
  int run(void* data, int64_t length, MlcTensor& out, MlcCancel* cancel = nullptr) {
    REQUIRE_MESSAGE(code == MLC_OK, text);
    const MlcTensor in = mlc_tensor(data, MLC_U8, 1, &length);
    MlcError* error = nullptr;
    auto how = sized<MlcRunOptions>();
    how.cancel = cancel;
    const int answer = lib().run(session, &how, &in, 1, &out, 1, &error);
    text = lib().error_text(error);
    lib().error_release(error);
    return answer;
  }
  int run(MlcCancel* cancel = nullptr) {
    alignas(64) static std::byte x[64];
    MlcTensor out{};
    return run(x, 64, out, cancel);
  }
};

bool has(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

MlcSessionOptions time_limit(uint64_t ns, uint32_t threads = 1) {
  MlcSessionOptions o{};
  o.time_limit_ns = ns;
  o.threads = threads;
  return o;
}

}  // namespace

TEST_CASE("an endless kernel and an endless program end at the time limit, which is set by default") {
  for (const PlanContainer& parts : {PlanContainer{kOneKernel, spinning_kernel(), {}, {}, {}}, PlanContainer{kEndlessProgram, {}, {}, {}, {}}}) {
    Opened o(parts);
    CHECK(o.run() == MLC_CANCELLED);
    CHECK_MESSAGE(has(o.text, "error[E6004]: the run took longer than its time limit of 1500 ms"), o.text);
    CHECK(has(o.text, "--time-limit"));
    Opened sooner(parts, time_limit(20'000'000, 2));
    for (int round = 0; round < 3; ++round) CHECK(sooner.run() == MLC_CANCELLED);
    CHECK(has(sooner.text, "limit of 20 ms"));
  }
}

TEST_CASE("cancel is seen inside a kernel and inside a program, though there is no time limit") {
  for (const PlanContainer& parts : {PlanContainer{kOneKernel, spinning_kernel(), {}, {}, {}}, PlanContainer{kEndlessProgram, {}, {}, {}, {}}}) {
    Opened o(parts, time_limit(MLC_NO_LIMIT, 2));
    REQUIRE_MESSAGE(o.code == MLC_OK, o.text);
    MlcCancel* token = nullptr;
    REQUIRE(lib().cancel_create(&token, nullptr) == MLC_OK);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // mostly within; before it counts as well
      lib().cancel(token);
    });
    CHECK(o.run(token) == MLC_CANCELLED);
    other.join();
    lib().cancel_release(token);
    CHECK_MESSAGE(has(o.text, "the run was cancelled"), o.text);
  }
}

TEST_CASE("a plan that wants more memory than it may have is refused before it has any") {
  Opened o({R"(plan function "main" {
    $0 = dim 0 0 $1 = const 6442450944 $2 = const 0
    buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0
    input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2
    copy (#1, #1)
  })", {}, {}, {}, {}});
  CHECK(o.run() == MLC_RESOURCE);
  CHECK_MESSAGE(has(o.text, "error[E6006]"), o.text);
  CHECK_MESSAGE(has(o.text, "201326592 bytes of memory"), o.text);
  CHECK(has(o.text, "--memory-limit"));
}

TEST_CASE("a file that nobody trusts gets a service only by name, and only if it declares it") {
  static int calls = 0;
  calls = 0;
  const MlcService decode{"image.decode", [](void*, MlcServiceCall* call) {
    ++calls;
    const int64_t nothing[] = {0, 0, 3};
    return call->result(call, 0, MLC_U8, 3, nothing) ? 0 : int{MLC_RESOURCE};
  }, nullptr};
  {
    Opened o({kDecoder, {}, {}, {}, {kImageDecode}}, {}, {}, &decode);
    CHECK(o.code == MLC_NO_VARIANT);
    CHECK_MESSAGE(has(o.text, "lacks app.image.decode (a file that nobody trusts gets it only if it is allowed to)"), o.text);
    CHECK_MESSAGE(has(o.text, "help: mlrun --allow-service image.decode, or untrusted_services"), o.text);
  }
  {
    Opened o({kDecoder, {}, {}, {}, {kImageDecode}}, {}, {"image.decode"}, &decode);
    CHECK_MESSAGE(o.run() == MLC_OK, o.text);
    CHECK(calls == 1);
  }
  {
    Opened o({kDecoder, {}, {}, {}, {}}, {}, {"image.decode"}, &decode);
    CHECK(o.code == MLC_NO_VARIANT);
    CHECK_MESSAGE(has(o.text, "uses the service 'image.decode', which variant 'portable' does not declare"), o.text);
  }
  {
    Opened o({kDecoder, {}, {}, {}, {}}, {}, {"something.else"}, &decode);
    CHECK(o.code == MLC_NO_VARIANT);
  }
  CHECK(calls == 1);
}

TEST_CASE("kernels see zeros behind an input, not what lies there in the caller's memory") {
  Opened o({kOneKernel, copying_kernel(), {}, {}, {}});
  for (int64_t length : {1, 63, 33, 0}) {
    alignas(64) char app[64];
    std::memset(app, 'S', sizeof app);
    std::memset(app, 'x', static_cast<size_t>(length));
    MlcTensor out{};
    const int code = o.run(app, length, out);
    if (length == 0) {
      CHECK(code != MLC_OK);  // nothing may be read of an empty array
      continue;
    }
    REQUIRE_MESSAGE(code == MLC_OK, o.text);
    const std::string y(static_cast<const char*>(out.data), out.bytes);
    CHECK(y == std::string(static_cast<size_t>(length), 'x') + std::string(64 - static_cast<size_t>(length), '\0'));
  }
}

TEST_CASE("kernels see zeros behind an input of a program, too") {
  const std::string program = R"(plan function "main" {
    $0 = dim 0 0
    input "x" u8 [$0] %0
    %1 = call "segment" (%0)
    output "y" u8 rank 1 %1
  }
  function "segment" {)" + std::string(kOneKernel).substr(std::string(kOneKernel).find('{') + 1);
  Opened o({program, copying_kernel(), {}, {}, {}});
  alignas(64) char app[64];
  std::memset(app, 'S', sizeof app);
  MlcTensor out{};
  REQUIRE_MESSAGE(o.run(app, 5, out) == MLC_OK, o.text);
  CHECK(std::string(static_cast<const char*>(out.data), 5) == "SSSSS");
  CHECK_FALSE(has(std::string(static_cast<const char*>(out.data) + 5, out.bytes - 5), "S"));
}

TEST_CASE("kernels see nothing of what the caller's output held before") {
  Opened o({kOneKernel, copying_kernel(/*from_output=*/true), {}, {}, {}});
  alignas(64) char x[64] = {}, y[64];
  std::memset(y, 'S', sizeof y);
  int64_t shape = 64;
  MlcTensor out = mlc_tensor(y, MLC_U8, 1, &shape);
  REQUIRE_MESSAGE(o.run(x, 64, out) == MLC_OK, o.text);
  CHECK_FALSE(has(std::string(y, sizeof y), "S"));
}

TEST_CASE("kernels see zeros behind a container in memory that ends with a tensor") {
  const std::string plan = R"(plan function "main" {
    $0 = dim 0 0 $1 = const 64 $2 = const 0 $3 = const 1
    buffer #0 u8 bytes $3 constant 0 copy 0 buffer #1 u8 bytes $1 output 0
    input "x" u8 [$0] #2 output "y" u8 [$1] #1 arena $2
    buffer #2 u8 bytes $0 input 0
    launch 0 (#0, #1) () tiles $3
  })";
  Opened o({plan, copying_kernel(), {std::byte{'w'}}, {}, {}});
  alignas(64) char x[64] = {};
  MlcTensor out{};
  REQUIRE_MESSAGE(o.run(x, 64, out) == MLC_OK, o.text);
  const std::string y(static_cast<const char*>(out.data), out.bytes);
  CHECK(y[0] == 'w');
  CHECK_FALSE(has(y, "S"));
}

// Bytes that zstd makes some hundred times smaller: beyond a thousand times they would be stored as they are.
template <class Bytes>
void fill_with_little(Bytes& bytes, size_t from) {
  uint32_t x = 1;
  for (size_t at = from; at + 4 <= bytes.size(); at += 512) {
    x = x * 1664525 + 1013904223;
    std::memcpy(bytes.data() + at, &x, 4);
  }
}

TEST_CASE("an asset of a stranger that decodes to more than 64 MiB is not decoded") {
  for (const size_t mib : {64, 65}) {
    std::string text(mib << 20, ' ');
    fill_with_little(text, 0);
    Opened o({kOneKernel, copying_kernel(), {}, text, {}});
    REQUIRE_MESSAGE(o.code == MLC_OK, o.text);
    MlcBytes data{};
    MlcError* error = nullptr;
    const int code = lib().asset_data(o.model, "pipeline.json", &data, &error);
    const std::string said = lib().error_text(error);
    lib().error_release(error);
    CHECK_MESSAGE(code == (mib == 64 ? MLC_OK : MLC_RESOURCE), said);
    CHECK(has(said, "at most 64 MiB") == (mib == 65));
    auto file = test::container_of({kOneKernel, copying_kernel(), {}, text, {}});  // whose asset may be checked, whatever its size
    REQUIRE(file.ok());
    auto check = sized<MlcOpenOptions>();
    check.memory = file->data(), check.memory_bytes = file->size(), check.verify = MLC_VERIFY_FULL;
    MlcModel* model = nullptr;
    CHECK(lib().open(&check, &model, nullptr) == MLC_OK);
    lib().model_release(model);
  }
}

TEST_CASE("a module of a stranger that decodes to more than 32 MiB is not decoded") {
  std::vector<std::byte> module = copying_kernel();
  const size_t end = module.size();
  module.resize(33 << 20);
  fill_with_little(module, end);
  Opened o({kOneKernel, module, {}, {}, {}});
  CHECK_MESSAGE(o.code == MLC_NO_VARIANT, o.text);
  CHECK_MESSAGE(has(o.text, "33 MiB of"), o.text);
}

TEST_CASE("trusted files keep what they have, and every file has a limit on steps") {
  using namespace mlc::api;
  const exec::Limits trusted = limits_for(true, {}, uint64_t{8} << 30), stranger = limits_for(false, {}, uint64_t{8} << 30);
  CHECK(trusted.max_memory_bytes == uint64_t{7} << 30);  // an eighth stays free
  CHECK(trusted.work.time_ns == WorkLimits::kNone);
  CHECK(trusted.work.units == WorkLimits::kNone);
  CHECK_FALSE(trusted.confine_loads);
  CHECK(trusted.max_steps <= uint64_t{1} << 36);
  CHECK(stranger.max_memory_bytes == untrusted::kMemoryBytes);
  CHECK(stranger.work.time_ns == untrusted::kTimeNs);
  CHECK(stranger.work.units == untrusted::kTimeNs * untrusted::kUnitsPerNs);
  CHECK(stranger.confine_loads);
  CHECK(stranger.max_steps <= uint64_t{1} << 36);
  CHECK(limits_for(false, {}, uint64_t{100} << 20).max_memory_bytes < uint64_t{100} << 20);
  const exec::Limits wide = limits_for(false, {.time_ns = kNoLimit, .memory_bytes = uint64_t{1} << 30}, uint64_t{8} << 30);
  CHECK(wide.work.units == WorkLimits::kNone);
  CHECK(wide.max_memory_bytes == uint64_t{1} << 30);
  CHECK(wide.confine_loads);
}

TEST_CASE("a thousand states are saved and restored in less than half a second of one processor") {
  constexpr uint32_t kStates = 1000;
  std::string plan = R"(plan function "main" { $0 = dim 0 0 $1 = const 64 $2 = const 0
    buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0)", copies;
  for (uint32_t k = 0; k < kStates; ++k) {
    plan += " buffer #" + std::to_string(k + 2) + " u8 bytes $1 state " + std::to_string(k);
    copies += " copy (#" + std::to_string(k + 2) + ", #0)";
  }
  plan += R"( input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2 copy (#1, #0))" + copies + " }";
  PlanContainer parts{plan, {}, {}, {}, {}};
  parts.said = [](format::Method& m) {
    for (uint32_t k = 0; k < kStates; ++k) {
      format::Port state;
      state.name = "one of many states, number " + std::to_string(k);
      state.dtype = DType::U8;
      state.dims = {format::DimRef::constant(64)};
      m.state.push_back(state);
    }
  };
  Opened o(std::move(parts));
  REQUIRE_MESSAGE(o.run() == MLC_OK, o.text);
  const std::clock_t begin = std::clock();
  MlcBytes bytes{};
  MlcError* error = nullptr;
  REQUIRE(lib().state_save(o.session, &bytes, &error) == MLC_OK);
  const std::vector<std::byte> saved(static_cast<const std::byte*>(bytes.data), static_cast<const std::byte*>(bytes.data) + bytes.bytes);
  CHECK(saved.size() > kStates * 64);
  CHECK(lib().state_restore(o.session, saved.data(), saved.size(), &error) == MLC_OK);
#ifndef MLC_SANITIZED
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.5);
#endif
}
