// The manifest and the plan are two parts of a file: where they disagree about the ports of a program, no session is made of it.
#include "doctest/doctest.h"

#include <cstring>

#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "tests/support/containers/plan_container.h"

using namespace mlc;
using format::DimRef;
using format::Method;

namespace {

const MlcApi& lib() { return *mlc_get_api(MLC_API_VERSION); }

// y = x, of 64 bytes.
constexpr const char* kSegment = R"(plan function "main" {
  $0 = dim 0 0 $1 = const 64 $2 = const 0
  buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $1 output 0
  input "x" u8 [$0] #0 output "y" u8 [$1] #1 arena $2
  copy (#1, #0)
})";

const std::string kProgram = R"(plan function "main" {
  $0 = dim 0 0
  input "x" u8 [$0] %0
  %1 = call "segment" (%0)
  output "y" u8 rank 1 %1
}
function "segment" {)" + std::string(kSegment).substr(std::string(kSegment).find('{') + 1);

struct Answer {
  int opened = MLC_OK, ran = MLC_OK;
  std::string text;
  std::vector<int64_t> shape;
};

Answer answer_of(const std::string& plan, const std::function<void(Method&)>& said) {
  const auto bytes = test::container_of({plan, {}, {}, {}, {}, said});
  REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? std::string() : bytes.status().text()));
  Answer a;
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  MlcError* error = nullptr;
  auto open = ::mlc::sized<MlcOpenOptions>();
  open.memory = bytes->data(), open.memory_bytes = bytes->size();
  auto wishes = ::mlc::sized<MlcSessionOptions>();
  wishes.threads = 1;
  a.opened = lib().open(&open, &model, &error);
  if (a.opened == MLC_OK) a.opened = lib().session_create(model, &wishes, &session, &error);
  if (a.opened == MLC_OK) {
    alignas(64) static std::byte x[64];
    const int64_t length = 64;
    const MlcTensor in = mlc_tensor(x, MLC_U8, 1, &length);
    MlcTensor out{};
    auto how = ::mlc::sized<MlcRunOptions>();
    a.ran = lib().run(session, &how, &in, 1, &out, 1, &error);
    if (a.ran == MLC_OK) a.shape.assign(out.shape, out.shape + out.rank);
  }
  a.text = lib().error_text(error);
  lib().error_release(error);
  lib().session_release(session);
  lib().model_release(model);
  return a;
}

struct Lie {
  std::string what;
  std::function<void(Method&)> said;
};
const Lie kLies[] = {
    {"name", [](Method& m) { m.outputs[0].name = "z"; }},
    {"name of an input", [](Method& m) { m.inputs[0].name = "z"; }},
    {"element type", [](Method& m) { m.outputs[0].dtype = DType::F32; }},
    {"axes", [](Method& m) { m.outputs[0].dims.push_back(DimRef::constant(1)); }},
    {"no axes", [](Method& m) { m.inputs[0].dims.clear(); }},
    {"one more output", [](Method& m) { m.outputs.push_back(m.outputs[0]), m.outputs[1].name = "z"; }},
    {"one more input", [](Method& m) { m.inputs.push_back(m.inputs[0]), m.inputs[1].name = "z"; }},
    {"a list", [](Method& m) { m.inputs[0].list_depth = 1, m.inputs[0].dims.clear(); }},
    {"no such program", [](Method& m) { m.name = "other"; }},
};

void promise(Method& m, int64_t extent) { m.outputs[0].dims[0] = DimRef::constant(extent); }

}  // namespace

TEST_CASE("a plan has the ports that the manifest says, or there is no session") {
  for (const std::string& plan : {std::string(kSegment), kProgram}) {
    const Answer right = answer_of(plan, {});
    CHECK_MESSAGE(right.ran == MLC_OK, right.text);
    CHECK(right.shape == std::vector<int64_t>{64});
    for (const Lie& lie : kLies) {
      CAPTURE(lie.what);
      const Answer a = answer_of(plan, lie.said);
      CHECK_MESSAGE(a.opened == MLC_MALFORMED, a.text);
    }
  }
}

TEST_CASE("an extent that the manifest promises is that of the plan") {
  CHECK(answer_of(kSegment, [](Method& m) { promise(m, 64); }).shape == std::vector<int64_t>{64});
  const Answer a = answer_of(kSegment, [](Method& m) { promise(m, 2000); });
  CHECK(a.opened == MLC_MALFORMED);
  CHECK_MESSAGE(a.text.find("axis 0 is 2000 in the manifest") != std::string::npos, a.text);
}

TEST_CASE("an extent that only the run of a program tells is compared behind it") {
  CHECK(answer_of(kProgram, [](Method& m) { promise(m, 64); }).shape == std::vector<int64_t>{64});
  const Answer a = answer_of(kProgram, [](Method& m) { promise(m, 2000); });
  CHECK(a.opened == MLC_OK);
  CHECK_MESSAGE(a.ran == MLC_MALFORMED, a.text);
  CHECK(a.shape.empty());
}
