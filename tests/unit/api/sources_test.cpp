// Where a container and the keys may come from besides files: functions of the application, and memory.
#include <atomic>
#include <cstring>
#include <functional>
#include <iterator>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

std::vector<char> content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  REQUIRE(!bytes.empty());
  return bytes;
}

// An application that has the container in its own way, and may do it badly.
struct Application {
  std::vector<char> bytes;
  std::function<int(uint64_t offset, char* out, uint64_t bytes)> answer;
  std::atomic<int> reads{0};
  MlcReader reader = sized<MlcReader>();

  explicit Application(const std::string& path) : bytes(content(path)) {
    reader.bytes = bytes.size();
    reader.user = this;
    reader.read = [](void* user, uint64_t offset, void* out, uint64_t length) {
      auto& self = *static_cast<Application*>(user);
      ++self.reads;
      return self.answer(offset, static_cast<char*>(out), length);
    };
    answer = [this](uint64_t offset, char* out, uint64_t length) {
      if (offset > bytes.size() || length > bytes.size() - offset) return -1;
      std::memcpy(out, bytes.data() + offset, length);
      return 0;
    };
  }
  MlcOpenOptions options() const {
    auto o = sized<MlcOpenOptions>();
    o.reader = &reader;
    return o;
  }
};

const std::vector<float> kX = {1, 2, 3};

}  // namespace

TEST_CASE("a container that the application reads runs as one from a file, in every way to verify, and is copied") {
  const ApiSample& s = api_sample();
  const std::string key_file = s.public_key_file;
  const char* const keys[] = {key_file.c_str()};
  for (const int32_t verify : {MLC_VERIFY_AUTO, MLC_VERIFY_LAZY, MLC_VERIFY_FULL, MLC_VERIFY_COPY}) {
    Application app(s.signed_file);
    MlcOpenOptions o = app.options();
    o.verify = verify;
    o.trust_keys = keys;
    o.num_trust_keys = 1;
    Opened m(o);
    REQUIRE_MESSAGE(m.told.code == MLC_OK, m.told.text);
    CHECK(m.info().is_copied == 1);
    CHECK(m.info().native_allowed == 1);
    CHECK(std::string(m.info().file) == "the container");
    for (const char* variant : {"native-test", "portable"}) {
      Session session(m, variant);
      REQUIRE_MESSAGE(session.told.code == MLC_OK, session.told.text);
      CHECK(session.answer(kX) == expected_answer(kX));
    }
    const int reads = app.reads;
    Session again(m);
    CHECK(again.answer(kX) == expected_answer(kX));
    CHECK(app.reads >= reads);  // weights are not read again: they are there
  }
}

TEST_CASE("a reader that fails at any of its calls is an error that names it, and a later one may succeed") {
  const ApiSample& s = api_sample();
  int calls = 0;
  const auto attempt = [&](int failing) {
    Application app(s.unsigned_file);
    const auto good = app.answer;
    app.answer = [&, good](uint64_t offset, char* out, uint64_t length) {
      return ++calls == failing ? 42 : good(offset, out, length);
    };
    calls = 0;
    MlcOpenOptions o = app.options();
    o.name = "the model of the shop";
    Opened m(o);
    Told told = m.told;
    if (m.model) {
      Session session(m);
      told = session.told;
      if (session.session) {
        std::vector<float> x = kX;
        const int64_t n = 3;
        std::vector<MlcTensor> out(1);
        told = session.run("main", {mlc_tensor(x.data(), MLC_F32, 1, &n)}, &out);
        if (told.code == MLC_OK) CHECK(std::memcmp(out[0].data, expected_answer(kX).data(), 12) == 0);
      }
    }
    return told;
  };
  REQUIRE(attempt(0).code == MLC_OK);
  const int all = calls;
  CHECK(all > 5);
  for (int failing = 1; failing <= all; ++failing) {
    const Told told = attempt(failing);
    if (told.code == MLC_NO_VARIANT) continue;  // the variant whose segments cannot be read is left out
    CHECK(told.code == MLC_NOT_FOUND);
    CHECK_MESSAGE(told.text.find("cannot read the model of the shop: the reader answers 42 for") != std::string::npos, told.text);
  }
}

TEST_CASE("a reader that lies about bytes or size is found out") {
  const ApiSample& s = api_sample();
  const auto outcome = [&](const std::function<void(Application&)>& change) {
    Application app(s.unsigned_file);
    change(app);
    MlcOpenOptions o = app.options();
    o.allow_unsigned = 1;
    o.verify = MLC_VERIFY_FULL;
    return Opened(o).told.code;
  };
  CHECK(outcome([](Application&) {}) == MLC_OK);
  CHECK(outcome([](Application& a) { a.reader.bytes = 0; }) == MLC_MALFORMED);
  CHECK(outcome([](Application& a) { a.reader.bytes -= 1; }) == MLC_MALFORMED);
  CHECK(outcome([](Application& a) { a.reader.bytes += 1; }) != MLC_OK);
  CHECK(outcome([](Application& a) { a.reader.bytes = UINT64_MAX; }) != MLC_OK);
  CHECK(outcome([](Application& a) { a.answer = [](uint64_t, char*, uint64_t) { return 0; }; }) == MLC_MALFORMED);  // nothing at all
  for (const uint64_t at : {uint64_t{5000}, uint64_t{40000}}) {
    const int code = outcome([at](Application& a) {
      a.answer = [&a, at](uint64_t offset, char* out, uint64_t length) {
        std::memcpy(out, a.bytes.data() + offset, length);
        if (offset <= at && at < offset + length) out[at - offset] ^= 1;
        return 0;
      };
    });
    CHECK((code == MLC_BAD_SIGNATURE || code == MLC_MALFORMED));
  }
  // Another answer each time that somebody asks: what was hashed is what is used.
  CHECK(outcome([](Application& a) {
          a.answer = [&a](uint64_t offset, char* out, uint64_t length) {
            std::memcpy(out, a.bytes.data() + offset, length);
            if (offset >= 4096 && a.reads % 2 == 0) std::memset(out, 0x55, length);
            return 0;
          };
        }) != MLC_OK);
}

TEST_CASE("a public key in memory is as good as one in a file, and a wrong one is an error") {
  const ApiSample& s = api_sample();
  const std::vector<char> pem = content(s.public_key_file);
  const auto opened_with = [&](std::vector<MlcBytes> keys) {
    auto o = sized<MlcOpenOptions>();
    o.path = s.signed_file.c_str();
    o.trust_key_data = keys.data();
    o.num_trust_key_data = static_cast<uint32_t>(keys.size());
    const Opened m(o);
    if (m.model) {
      CHECK(m.info().native_allowed == 1);
      CHECK_MESSAGE(std::string(m.info().trust).find("a key in memory") != std::string::npos, m.info().trust);
    }
    return m.told;
  };
  const MlcBytes good{pem.data(), pem.size()}, poem{"a poem", 6}, cut{pem.data(), pem.size() - 40}, nothing{"", 0};
  CHECK(opened_with({good}).code == MLC_OK);
  CHECK(opened_with({good, good}).code == MLC_OK);
  for (const MlcBytes& bad : {poem, cut, nothing}) {
    const Told told = opened_with({good, bad});
    CHECK(told.code == MLC_MALFORMED);
    CHECK(told.number == 3301);
    CHECK_MESSAGE(told.message.find("a key in memory") == 0, told.message);
  }
}

TEST_CASE("the name of the application stands in messages where there is no path") {
  const ApiSample& s = api_sample();
  const std::vector<char> bytes = content(s.unsigned_file);
  auto o = sized<MlcOpenOptions>();
  o.memory = bytes.data();
  o.memory_bytes = bytes.size();
  CHECK(std::string(Opened(o).info().file) == "the container in memory");
  o.name = "embedded";
  CHECK(std::string(Opened(o).info().file) == "embedded");
  o.memory_bytes -= 1;
  CHECK(Opened(o).told.message.find("embedded is truncated") == 0);
  o.path = s.unsigned_file.c_str();
  CHECK(std::string(Opened(o).info().file) == s.unsigned_file);
}
