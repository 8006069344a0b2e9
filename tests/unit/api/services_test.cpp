// Services of the application through the C table: a container that needs one, with and without an application that
// offers it, and applications that answer nonsense.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "tests/support/decoder_container.h"

using namespace mlc;
using test::decoder_container;

namespace {

const MlcApi& lib() { return *mlc_get_api(MLC_API_VERSION); }

using Behaviour = std::function<int(MlcServiceCall*)>;
int call_behaviour(void* user, MlcServiceCall* call) { return (*static_cast<Behaviour*>(user))(call); }

struct Opened {
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  std::vector<std::byte> room;
  int code = 0;
  std::string text;

  Opened(bool listed, std::vector<MlcService> services) {
    const std::vector<std::byte>& bytes = decoder_container(listed);
    if (bytes.empty()) return;
    room.resize(bytes.size() + 1024);
    std::byte* const at = room.data() + (256 - reinterpret_cast<uintptr_t>(room.data()) % 256);
    std::memcpy(at, bytes.data(),
                bytes.size());  // containers lie at a multiple of 256, with some readable bytes behind
    auto o = sized<MlcOpenOptions>();
    o.memory = at;
    o.memory_bytes = bytes.size();
    o.allow_unsigned = 1;
    o.services = services.data();
    o.num_services = static_cast<uint32_t>(services.size());
    MlcError* error = nullptr;
    code = lib().open(&o, &model, &error);
    for (MlcService& s : services) s = {};  // copied
    if (code == MLC_OK) code = lib().session_create(model, nullptr, &session, &error);
    text = lib().error_text(error);
    lib().error_release(error);
  }
  Opened(const Opened&) = delete;
  ~Opened() {
    lib().session_release(session);
    lib().model_release(model);
  }
  // Empty, or the code and the sentence.
  std::string run(MlcTensor& out) {
    static uint8_t file[] = {2, 3, 7};
    static const int64_t shape[] = {3};
    const MlcTensor in = mlc_tensor(file, MLC_U8, 1, shape);
    out = {};
    MlcError* error = nullptr;
    const int failed = lib().run(session, nullptr, &in, 1, &out, 1, &error);
    std::string what = failed ? std::to_string(failed) + " " + lib().error_message(error) : "";
    lib().error_release(error);
    return what;
  }
};

int two_by_three(MlcServiceCall* call) {
  const auto* file = static_cast<const uint8_t*>(call->inputs[0].data);
  const int64_t shape[] = {file[0], file[1], 3};
  void* pixels = call->result(call, 0, MLC_U8, 3, shape);
  if (!pixels) return MLC_RESOURCE;
  std::memset(pixels, file[2], 18);
  return 0;
}

}  // namespace

#define NEED_CONTAINER()                                  \
  if (decoder_container(true).empty()) {                  \
    MESSAGE("skipped: clang-19 or ld.lld-19 is missing"); \
    return;                                               \
  }

TEST_CASE("a service that the application registers does its steps") {
  NEED_CONTAINER();
  Behaviour behaviour = [](MlcServiceCall* call) {
    CHECK(call->size == sizeof(MlcServiceCall));
    CHECK(call->memory_bytes > 1 << 20);  // how many exactly: tests/unit/plan_text
    CHECK(call->num_inputs == 1);
    CHECK(call->num_outputs == 1);
    CHECK(std::string(call->options) == "RGB or-empty");
    CHECK(call->inputs[0].bytes == 3);
    CHECK(call->inputs[0].rank == 1);
    CHECK(call->inputs[0].shape[0] == 3);
    return two_by_three(call);
  };
  const std::string name = "image.decode";
  Opened o(true, {{"something.else", &call_behaviour, nullptr}, {name.c_str(), &call_behaviour, &behaviour}});
  REQUIRE_MESSAGE(o.code == MLC_OK, o.text);
  MlcTensor out;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(o.run(out) == "");
    CHECK(out.rank == 3);
    CHECK(out.shape[0] == 2);
    CHECK(out.shape[1] == 3);
    CHECK(out.bytes == 18);
    CHECK(static_cast<const uint8_t*>(out.data)[17] == 7);
  }
}

TEST_CASE("without the service no variant fits, and the reason names it") {
  NEED_CONTAINER();
  Opened o(true, {});
  REQUIRE(o.model);
  CHECK(o.code == MLC_NO_VARIANT);
  CHECK(o.text.find("portable   app.image.decode no (the application does not offer it)") != std::string::npos);
  for (uint32_t v = 0; v < 2; ++v) {
    auto variant = sized<MlcVariant>();
    REQUIRE(lib().explain(o.model, v, &variant) == MLC_OK);
    CHECK(variant.fits == MLC_FITS_NOT);
    CHECK(std::string(variant.reason) == "app.image.decode no (the application does not offer it)");
    auto clause = sized<MlcClause>();
    REQUIRE(lib().failing(o.model, v, 0, &clause) == MLC_OK);
    CHECK(std::string(clause.clause) == "app.image.decode");
    CHECK(std::string(clause.answer) == "no");
  }
}

TEST_CASE("a plan that asks for more than its variant says is found out when it is loaded") {
  NEED_CONTAINER();
  Opened o(false, {});
  CHECK(o.code == MLC_NO_VARIANT);
  CHECK(o.text.find("native-test   the application does not offer the service 'image.decode'") != std::string::npos);
}

TEST_CASE("services without a name or a function are refused") {
  NEED_CONTAINER();
  CHECK(Opened(true, {{nullptr, &call_behaviour, nullptr}}).code == MLC_USAGE);
  CHECK(Opened(true, {{"image.decode", nullptr, nullptr}}).code == MLC_USAGE);
}

TEST_CASE("what a service says of its failure is told, and what it lies about is found") {
  NEED_CONTAINER();
  Behaviour behaviour;
  Opened o(true, {{"image.decode", &call_behaviour, &behaviour}});
  REQUIRE_MESSAGE(o.code == MLC_OK, o.text);
  MlcTensor out;
  const auto outcome = [&](Behaviour b) {
    behaviour = std::move(b);
    const std::string text = o.run(out), where = "'main', step 0 (Decoder_0): image.decode: ";
    const size_t at = text.find(where);
    return at == std::string::npos ? text : text.substr(0, at) + text.substr(at + where.size());
  };
  const auto failing = [&](int code, const char* sentence) {
    return outcome([=](MlcServiceCall* call) {
      std::strcpy(call->message, sentence);
      return code;
    });
  };
  const auto giving = [&](uint32_t output, int32_t dtype, uint32_t rank, const int64_t* shape) {
    return outcome([=](MlcServiceCall* call) {
      CHECK(!call->result(call, output, dtype, rank, shape));
      CHECK(!call->result(call, output, MLC_U8, 0, nullptr));  // nothing after a failure
      return 0;                                                // and saying that all is well does not help
    });
  };
  CHECK(failing(MLC_MALFORMED, "no picture") == "4 no picture");
  CHECK(failing(MLC_UNSUPPORTED, "") == "20 failed");
  CHECK(failing(MLC_RESOURCE, "full") == "7 full");
  CHECK(failing(MLC_UNTRUSTED, "not yours to say") == "70 not yours to say");
  CHECK(failing(-5, "x") == "70 x");
  CHECK(failing(1 << 20, "x") == "70 x");
  CHECK(outcome([](MlcServiceCall* call) {
          std::memset(call->message, 'a', sizeof call->message);  // no zero at the end
          return int{MLC_MALFORMED};
        }) == "4 " + std::string(255, 'a'));
  const int64_t good[] = {2, 3, 3}, wide[] = {2, 3, 4}, negative[] = {-2, 3, 3}, huge[] = {INT64_MAX, INT64_MAX, 3};
  const std::string type = "6 'image.decode' gives result 0 another type than the step wants";
  const std::string shape = "6 'image.decode' gives result 0 another shape than the step wants";
  CHECK(giving(1, MLC_U8, 3, good) == "6 'image.decode' gives result 1 of none");
  CHECK(giving(0, MLC_F32, 3, good) == type);
  CHECK(giving(0, -1, 3, good) == type);
  CHECK(giving(0, 15 + 256, 3, good) == type);
  CHECK(giving(0, MLC_STR, 3, good) == type);
  CHECK(giving(0, MLC_U8, 3, nullptr) == type);
  CHECK(giving(0, MLC_U8, UINT32_MAX, good) == type);
  CHECK(giving(0, MLC_U8, 2, good) == shape);
  CHECK(giving(0, MLC_U8, 0, nullptr) == shape);
  CHECK(giving(0, MLC_U8, 3, wide) == shape);
  CHECK(giving(0, MLC_U8, 3, negative) == shape);
  CHECK(giving(0, MLC_U8, 3, huge).find("7 values of 18446744073709551615 bytes") == 0);
  CHECK(outcome([](MlcServiceCall*) { return 0; }).find("'image.decode' does not give all of its results") !=
        std::string::npos);
  CHECK(outcome(two_by_three) == "");  // and the session is as usable as before
}
