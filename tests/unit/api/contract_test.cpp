// What mlc.h promises of every struct and every function: sizes, and null.
#include <cstddef>
#include <cstring>
#include <functional>

#include "runtime/api/sizes.h"
#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

// A struct that the library fills, between bytes that it must not touch.
template <class T>
struct Guarded {
  static constexpr size_t kBehind = 64;
  alignas(T) unsigned char bytes[sizeof(T) + kBehind];

  explicit Guarded(uint32_t size) {
    std::memset(bytes, 0xa5, sizeof bytes);
    get()->size = size;
  }
  T* get() { return reinterpret_cast<T*>(bytes); }
  bool is_untouched(size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i)
      if (bytes[i] != 0xa5) return false;
    return true;
  }
  bool is_zero(size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i)
      if (bytes[i] != 0) return false;
    return true;
  }
};

// `call` fills a struct of this library's size. Of another size it fills what both have, no byte behind, and zeros where it
// has nothing to say. `last` is where the last field of version 1 begins.
template <class T>
void check_filling(const std::function<int(T*)>& call, size_t last) {
  constexpr auto first = api::kFirstSize<T>;
  CHECK(last < first);
  CHECK(call(nullptr) == MLC_USAGE);
  for (const uint32_t size : {0u, 4u, first - 1}) {
    Guarded<T> small(size);
    CHECK(call(small.get()) == MLC_USAGE);
    CHECK(small.get()->size == size);
    CHECK(small.is_untouched(sizeof(uint32_t), sizeof small.bytes));
  }
  Guarded<T> exact(first);
  REQUIRE(call(exact.get()) == MLC_OK);
  CHECK(exact.get()->size == first);
  CHECK(exact.is_untouched(first, sizeof exact.bytes));
  CHECK_FALSE(exact.is_untouched(last, first));
  Guarded<T> newer(sizeof(T) + 24);
  REQUIRE(call(newer.get()) == MLC_OK);
  CHECK(newer.get()->size == sizeof(T) + 24);
  CHECK(std::memcmp(newer.bytes + sizeof(uint32_t), exact.bytes + sizeof(uint32_t), first - sizeof(uint32_t)) == 0);
  CHECK(newer.is_zero(sizeof(T), sizeof(T) + 24));
  CHECK(newer.is_untouched(sizeof(T) + 24, sizeof newer.bytes));
}

}  // namespace

TEST_CASE("of a struct to be filled the library writes the bytes that its size names, and zeros for what it does not know") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  check_filling<MlcModelInfo>([&](auto* out) { return lib().model_info(m.model, out); }, offsetof(MlcModelInfo, is_copied));
  check_filling<MlcProgram>([&](auto* out) { return lib().program(m.model, 0, out); }, offsetof(MlcProgram, num_outputs));
  check_filling<MlcPort>([&](auto* out) { return lib().port(m.model, 0, 0, 0, out); }, offsetof(MlcPort, list_depth));
  check_filling<MlcVariant>([&](auto* out) { return lib().explain(m.model, 0, out); }, offsetof(MlcVariant, num_failing));
  check_filling<MlcClause>([&](auto* out) { return lib().failing(m.model, 0, 0, out); }, offsetof(MlcClause, source));
  check_filling<MlcAsset>([&](auto* out) { return lib().asset(m.model, 0, out); }, offsetof(MlcAsset, bytes));
  check_filling<MlcSessionInfo>([&](auto* out) { return lib().session_info(session.session, out); }, offsetof(MlcSessionInfo, note));
  check_filling<MlcSelftest>(
      [&](MlcSelftest* out) {
        const int code = lib().selftest(session.session, nullptr, out, nullptr);
        if (code == MLC_OK) out->text = nullptr;  // a string of this selftest alone
        return code;
      },
      offsetof(MlcSelftest, text));
  MlcOpenOptions o = sized<MlcOpenOptions>();
  o.path = s.unsigned_file.c_str();
  MlcFile* file = nullptr;
  REQUIRE(lib().authenticate(&o, &file, nullptr) == MLC_OK);
  check_filling<MlcFileInfo>([&](auto* out) { return lib().file_info(file, out); }, offsetof(MlcFileInfo, is_signed));
  lib().file_release(file);
  auto so = sized<MlcSessionOptions>();
  so.profile = 1;
  MlcSession* profiled = nullptr;
  REQUIRE(lib().session_create(m.model, &so, &profiled, nullptr) == MLC_OK);
  float x = 1;
  const int64_t n = 1;
  const MlcTensor in = mlc_tensor(&x, MLC_F32, 1, &n);
  REQUIRE(lib().run(profiled, nullptr, &in, 1, nullptr, 0, nullptr) == MLC_OK);
  check_filling<MlcProfileEntry>([&](auto* out) { return lib().profile(profiled, nullptr, 0, out); }, offsetof(MlcProfileEntry, runs));
  check_filling<MlcProfileMoments>([&](auto* out) { return lib().profile_moments(profiled, nullptr, 0, 0, out); }, offsetof(MlcProfileMoments, left));
  auto moments = sized<MlcProfileMoments>();
  CHECK(lib().profile_moments(profiled, nullptr, 0, 0, &moments) == MLC_OK);
  CHECK((moments.begin > 0 && moments.begin <= moments.done && moments.done <= moments.left));
  CHECK(lib().profile_moments(profiled, nullptr, 1000, 0, &moments) == MLC_NOT_FOUND);
  CHECK(lib().profile_moments(profiled, nullptr, 0, 100000, &moments) == MLC_NOT_FOUND);
  CHECK(lib().profile_moments(profiled, "nonesuch", 0, 0, &moments) == MLC_USAGE);
  lib().session_release(profiled);
}

TEST_CASE("of an option struct only the bytes that its size names are read, and version 1 is the least") {
  const ApiSample& s = api_sample();
  Guarded<MlcOpenOptions> o(sizeof(MlcOpenOptions));
  std::memset(o.bytes, 0, sizeof(MlcOpenOptions));  // and behind it what a newer header might say
  o.get()->path = s.unsigned_file.c_str();
  o.get()->allow_unsigned = 1;
  const auto opened = [&](uint32_t size) {
    o.get()->size = size;
    return Opened(*o.get()).told;
  };
  for (const uint32_t size : {0u, 3u, uint32_t{offsetof(MlcOpenOptions, verify)}, api::kFirstSize<MlcOpenOptions> - 1}) {
    CHECK(opened(size).code == MLC_USAGE);
    CHECK(opened(size).message == "MlcOpenOptions: size is " + std::to_string(size) + ", expected " +
                                      std::to_string(api::kFirstSize<MlcOpenOptions>) + " or more: set it to sizeof");
  }
  CHECK(opened(api::kFirstSize<MlcOpenOptions>).code == MLC_OK);
  CHECK(opened(sizeof o.bytes).code == MLC_OK);
  const Opened m(s.unsigned_file, "");
  auto so = sized<MlcSessionOptions>();
  so.size = 8;
  MlcSession* none = nullptr;
  CHECK(lib().session_create(m.model, &so, &none, nullptr) == MLC_USAGE);
  Session session(m);
  auto ro = sized<MlcRunOptions>();
  ro.size = 8;
  CHECK(lib().run(session.session, &ro, nullptr, 0, nullptr, 0, nullptr) == MLC_USAGE);
}

TEST_CASE("null where the header does not allow it is wrong usage, and nothing else happens") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session ses(m);
  const MlcApi& a = lib();
  MlcModel* const model = m.model;
  MlcSession* const session = ses.session;
  int asked = 0;
  const auto refused = [&](const std::function<int(MlcError**)>& call) {
    CAPTURE(asked);
    ++asked;
    CHECK(call(nullptr) == MLC_USAGE);
    const Told told = told_by(call);
    CHECK(told.code == MLC_USAGE);
    CHECK(!told.message.empty());
  };
  const auto refused_silently = [&](int code) {
    CAPTURE(asked);
    ++asked;
    CHECK(code == MLC_USAGE);
  };
  const char* const no_text[] = {nullptr};
  const MlcService no_service[] = {{nullptr, nullptr, nullptr}};
  MlcModel* made = nullptr;
  const auto open_with = [&](auto change) {
    refused([&](MlcError** e) {
      auto o = sized<MlcOpenOptions>();
      o.path = s.unsigned_file.c_str();
      change(o);
      const int code = a.open(&o, &made, e);
      CHECK(made == nullptr);
      return code;
    });
  };
  open_with([](auto& o) { o.path = nullptr; });
  open_with([](auto& o) { o.num_trust_keys = 1; });
  open_with([&](auto& o) { o.num_trust_keys = 1, o.trust_keys = no_text; });
  open_with([](auto& o) { o.num_services = 1; });
  open_with([&](auto& o) { o.num_services = 1, o.services = no_service; });
  open_with([](auto& o) { o.num_untrusted_services = 1; });
  open_with([&](auto& o) { o.num_untrusted_services = 1, o.untrusted_services = no_text; });
  const MlcBytes no_bytes{};
  open_with([](auto& o) { o.num_trust_key_data = 1; });
  open_with([&](auto& o) { o.num_trust_key_data = 1, o.trust_key_data = &no_bytes; });
  auto no_reader = sized<MlcReader>();
  open_with([&](auto& o) { o.path = nullptr, o.reader = &no_reader; });
  auto no_allocator = sized<MlcAllocator>();
  open_with([&](auto& o) { o.allocator = &no_allocator; });
  auto whole = sized<MlcOpenOptions>();
  whole.path = s.unsigned_file.c_str();
  MlcFile* file = nullptr;
  refused([&](MlcError** e) { return a.open(nullptr, &made, e); });
  refused([&](MlcError** e) { return a.open(&whole, nullptr, e); });
  refused([&](MlcError** e) { return a.authenticate(nullptr, &file, e); });
  refused([&](MlcError** e) { return a.authenticate(&whole, nullptr, e); });
  refused([&](MlcError** e) { return a.open_file(nullptr, &made, e); });
  REQUIRE(a.authenticate(&whole, &file, nullptr) == MLC_OK);
  refused([&](MlcError** e) { return a.open_file(file, nullptr, e); });
  REQUIRE(a.open_file(file, &made, nullptr) == MLC_OK);  // that did not use the file up
  a.model_release(made);
  a.file_release(file);

  auto file_info = sized<MlcFileInfo>();
  refused_silently(a.file_info(nullptr, &file_info));
  auto info = sized<MlcModelInfo>();
  refused_silently(a.model_info(nullptr, &info));
  CHECK(a.model_note(nullptr, 0) == nullptr);
  auto program = sized<MlcProgram>();
  refused_silently(a.program(nullptr, 0, &program));
  auto port = sized<MlcPort>();
  refused_silently(a.port(nullptr, 0, 0, 0, &port));
  auto variant = sized<MlcVariant>();
  refused_silently(a.explain(nullptr, 0, &variant));
  auto clause = sized<MlcClause>();
  refused_silently(a.failing(nullptr, 0, 0, &clause));
  auto asset = sized<MlcAsset>();
  refused_silently(a.asset(nullptr, 0, &asset));
  uint32_t chosen = 0;
  refused([&](MlcError** e) { return a.choose(nullptr, nullptr, nullptr, &chosen, e); });
  refused([&](MlcError** e) { return a.choose(model, nullptr, nullptr, nullptr, e); });
  MlcBytes bytes{};
  refused([&](MlcError** e) { return a.asset_data(nullptr, "labels.txt", &bytes, e); });
  refused([&](MlcError** e) { return a.asset_data(model, nullptr, &bytes, e); });
  refused([&](MlcError** e) { return a.asset_data(model, "labels.txt", nullptr, e); });
  MlcTensor tensor{};
  refused([&](MlcError** e) { return a.golden_inputs(nullptr, 0, &tensor, 1, e); });
  refused([&](MlcError** e) { return a.golden_inputs(model, 0, nullptr, 1, e); });

  MlcSession* another = nullptr;
  refused([&](MlcError** e) { return a.session_create(nullptr, nullptr, &another, e); });
  refused([&](MlcError** e) { return a.session_create(model, nullptr, nullptr, e); });
  auto with_allocator = sized<MlcSessionOptions>();
  with_allocator.allocator = &no_allocator;
  refused([&](MlcError** e) { return a.session_create(model, &with_allocator, &another, e); });
  auto session_info = sized<MlcSessionInfo>();
  refused_silently(a.session_info(nullptr, &session_info));
  refused([&](MlcError** e) { return a.pool_create(nullptr, nullptr, e); });
  refused([&](MlcError** e) { return a.cancel_create(nullptr, e); });
  a.cancel(nullptr);
  refused([&](MlcError** e) { return a.run(nullptr, nullptr, nullptr, 0, nullptr, 0, e); });
  refused([&](MlcError** e) { return a.run(session, nullptr, nullptr, 1, nullptr, 0, e); });
  float x = 1;
  const int64_t n = 1;
  const MlcTensor in = mlc_tensor(&x, MLC_F32, 1, &n);
  refused([&](MlcError** e) { return a.run(session, nullptr, &in, 1, nullptr, 1, e); });
  refused([&](MlcError** e) { return a.infer_shapes(nullptr, nullptr, &in, 1, &tensor, 1, e); });
  refused([&](MlcError** e) { return a.infer_shapes(session, nullptr, nullptr, 1, &tensor, 1, e); });
  refused([&](MlcError** e) { return a.infer_shapes(session, nullptr, &in, 1, nullptr, 1, e); });
  refused([&](MlcError** e) { return a.state_reset(nullptr, e); });
  refused([&](MlcError** e) { return a.state_save(nullptr, &bytes, e); });
  refused([&](MlcError** e) { return a.state_save(session, nullptr, e); });
  refused([&](MlcError** e) { return a.state_restore(nullptr, &x, 4, e); });
  refused([&](MlcError** e) { return a.state_restore(session, nullptr, 4, e); });
  auto result = sized<MlcSelftest>();
  refused([&](MlcError** e) { return a.selftest(nullptr, nullptr, &result, e); });
  refused([&](MlcError** e) { return a.selftest(session, nullptr, nullptr, e); });
  auto entry = sized<MlcProfileEntry>();
  refused_silently(a.profile(nullptr, nullptr, 0, &entry));
  refused_silently(a.profile(session, nullptr, 0, nullptr));

  CHECK(ses.answer({1, 2}) == expected_answer({1, 2}));
  CHECK(asked > 40);
}

TEST_CASE("what is reserved in a tensor is zero") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  float x = 1;
  const int64_t n = 1;
  MlcTensor in = mlc_tensor(&x, MLC_F32, 1, &n);
  std::vector<MlcTensor> out(1);
  CHECK(session.run("main", {in}, &out).code == MLC_OK);
  in.reserved[1] = 1;
  CHECK(session.run("main", {in}, &out).code == MLC_USAGE);
  in.reserved[1] = 0;
  out[0] = {};
  out[0].reserved[0] = 1;
  CHECK(session.run("main", {in}, &out).code == MLC_USAGE);
  MlcTensor item = in, list{};
  item.reserved[0] = 7;
  list.list_depth = list.num_items = 1;
  list.items = &item;
  int64_t position = 0;
  CHECK(session.run("rows", {list, mlc_tensor(&position, MLC_I64, 0, nullptr)}).code == MLC_USAGE);
  item.reserved[0] = 0;
  CHECK(session.run("rows", {list, mlc_tensor(&position, MLC_I64, 0, nullptr)}).code == MLC_OK);
}
