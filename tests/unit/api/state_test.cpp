// State between runs: saved, restored, and bytes that are none. The program `shift` of the sample answers the x before.
#include <algorithm>
#include <cstring>

#include "runtime/api/session/state_bytes.h"
#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

using Floats = std::vector<float>;

Floats last(Session& session, Floats x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<MlcTensor> out(1);
  const Told told = session.run("shift", {mlc_tensor(x.data(), MLC_F32, 1, &n)}, &out);
  REQUIRE_MESSAGE(told.code == MLC_OK, told.text);
  const auto* y = static_cast<const float*>(out[0].data);
  return {y, y + out[0].bytes / sizeof(float)};
}

std::vector<std::byte> saved(Session& session) {
  MlcBytes bytes{};
  const Told told = told_by([&](MlcError** e) { return lib().state_save(session.session, &bytes, e); });
  REQUIRE_MESSAGE(told.code == MLC_OK, told.text);
  const auto* data = static_cast<const std::byte*>(bytes.data);
  return {data, data + bytes.bytes};
}

Told restored(Session& session, const std::vector<std::byte>& bytes) {
  const std::vector<std::byte> exact(bytes);  // so that a sanitizer sees who reads on
  return told_by([&](MlcError** e) { return lib().state_restore(session.session, exact.data(), exact.size(), e); });
}

const Floats kZeros(4, 0), kOnes(4, 1), kTwos(4, 2), kThrees(4, 3);

std::vector<std::byte> encoded(const Digest& root, std::vector<api::StateArray> arrays) {
  const auto block = api::encode_state(root, arrays, nullptr);
  REQUIRE(block.ok());
  return {block->data(), block->data() + block->size()};
}
Digest root_of(const Opened& m) {
  const std::string hex = m.info().root;
  Digest root{};
  for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return root;
}

}  // namespace

TEST_CASE("state goes from a session of one variant to one of another, and is what it was") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const char* from : {"native-test", "portable"})
    for (const char* to : {"native-test", "portable"}) {
      Session a(m, from), b(m, to);
      CHECK(last(a, kOnes) == kZeros);
      const auto bytes = saved(a);
      CHECK(last(a, kTwos) == kOnes);
      CHECK(restored(b, bytes).code == MLC_OK);  // that no run has touched
      CHECK(last(b, kThrees) == kOnes);
      CHECK(restored(a, bytes).code == MLC_OK);
      CHECK(last(a, kThrees) == kOnes);
      CHECK(saved(a) == saved(b));
      CHECK(lib().state_reset(a.session, nullptr) == MLC_OK);
      CHECK(last(a, kOnes) == kZeros);
    }
}

TEST_CASE("what no run has used is not saved, and is zeros when that is restored") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session fresh(m), used(m);
  const auto nothing = saved(fresh);
  CHECK(last(used, kOnes) == kZeros);
  const auto something = saved(used);
  CHECK(restored(used, nothing).code == MLC_OK);
  CHECK(last(used, kTwos) == kZeros);
  CHECK(restored(used, something).code == MLC_OK);
  CHECK(last(used, {5, 6, 7, 8}) == kOnes);

  const auto read = api::decode_state(something);
  REQUIRE(read.ok());
  REQUIRE(read->arrays.size() == 1);
  CHECK(read->arrays[0].name == "before");
  CHECK(read->arrays[0].dtype == DType::F32);
  CHECK(read->arrays[0].shape == std::vector<int64_t>{4});
  CHECK(read->arrays[0].bytes.size() == 16);
  CHECK(read->root == root_of(m));
  CHECK(api::decode_state(nothing)->arrays.empty());
}

TEST_CASE("a state of another length, which the bytes may have, fails the run until it is reset") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session four(m), five(m);
  CHECK(last(four, kOnes) == kZeros);
  CHECK(last(five, {1, 2, 3, 4, 5}) == Floats(5, 0));
  const auto bytes = saved(four);
  CHECK(restored(five, bytes).code == MLC_OK);
  Floats x(5, 0);
  const int64_t n = 5;
  CHECK(five.run("shift", {mlc_tensor(x.data(), MLC_F32, 1, &n)}).code == MLC_INPUT_MISMATCH);
  CHECK(last(five, kTwos) == kOnes);
  CHECK(lib().state_reset(five.session, nullptr) == MLC_OK);
  CHECK(last(five, {1, 2, 3, 4, 5}) == Floats(5, 0));
}

TEST_CASE("every damaged byte and every length is malformed, and the state stays as it was") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  CHECK(last(session, kOnes) == kZeros);
  const auto good = saved(session);
  CHECK(last(session, kTwos) == kOnes);
  const auto before = saved(session);
  for (size_t at = 0; at < good.size(); ++at)
    for (const unsigned flip : {1u, 0x80u, 0xffu}) {
      auto bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      CHECK(restored(session, bad).code == MLC_MALFORMED);
    }
  for (size_t length = 1; length < good.size(); ++length)
    CHECK(restored(session, {good.begin(), good.begin() + static_cast<ptrdiff_t>(length)}).code == MLC_MALFORMED);
  auto longer = good;
  longer.resize(good.size() + 8);
  CHECK(restored(session, longer).code == MLC_MALFORMED);
  CHECK(saved(session) == before);
  CHECK(last(session, kThrees) == kTwos);
}

TEST_CASE("bytes that are well-formed but of something else are refused, and the state stays as it was") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  CHECK(last(session, kOnes) == kZeros);
  const Digest root = root_of(m);
  Digest other = root;
  other[0] ^= std::byte{1};
  const Floats data(4, 9);
  const Bytes bytes = std::as_bytes(std::span(data));
  const api::StateArray good{"before", DType::F32, {4}, bytes};
  CHECK(restored(session, encoded(other, {good})).code == MLC_INPUT_MISMATCH);
  CHECK(restored(session, encoded(root, {{"after", DType::F32, {4}, bytes}})).code == MLC_INPUT_MISMATCH);
  CHECK(restored(session, encoded(root, {good, {"after", DType::F32, {4}, bytes}})).code == MLC_INPUT_MISMATCH);
  CHECK(restored(session, encoded(root, {{"before", DType::I32, {4}, bytes}})).code == MLC_INPUT_MISMATCH);
  CHECK(restored(session, encoded(root, {{"before", DType::Str, {1}, {}}})).code == MLC_INPUT_MISMATCH);
  // What encode_state makes of arrays that break its rules is damaged, not believed.
  for (const api::StateArray& bad : {api::StateArray{"before", DType::F32, {5}, bytes}, {"before", DType::F32, {-4}, bytes}, {"before", DType::Str, {1}, bytes},
                                     {"before", DType::None, {4}, bytes}, {"before", static_cast<DType>(200), {4}, bytes},
                                     {"before", DType::F32, {INT64_MAX, INT64_MAX}, bytes},
                                     {"before", DType::F32, {4, 1, 1, 1, 1, 1, 1, 1, 1}, bytes}})
    CHECK(restored(session, encoded(root, {bad})).code == MLC_MALFORMED);
  CHECK(restored(session, encoded(root, {good, good})).code == MLC_MALFORMED);
  CHECK(last(session, kTwos) == kOnes);
  CHECK(restored(session, encoded(root, {good})).code == MLC_OK);
  CHECK(last(session, kTwos) == data);
}

TEST_CASE("a state that is more than the session may hold is refused, and the state stays as it was") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  auto o = sized<MlcSessionOptions>();
  o.memory_limit = 1 << 20;
  Session session(m, o);
  CHECK(last(session, kOnes) == kZeros);
  const Floats large(1 << 20, 1);
  CHECK(restored(session, encoded(root_of(m), {{"before", DType::F32, {1 << 20}, std::as_bytes(std::span(large))}})).code == MLC_RESOURCE);
  CHECK(last(session, kTwos) == kOnes);
}
