// Opening, trust, variants and options through the C table, on a container with code that runs.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

// The position of a variant, which must be there.
uint32_t variant_named(const Opened& m, const std::string& name) {
  auto v = sized<MlcVariant>();
  for (uint32_t i = 0; lib().explain(m.model, i, &v) == MLC_OK; ++i)
    if (name == v.name) return i;
  FAIL("no variant " << name);
  return 0;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  REQUIRE(!text.empty());
  return bytes_of_values(std::vector<char>(text.begin(), text.end()));
}

// At a multiple of 256, as containers in memory lie.
struct Aligned {
  std::vector<std::byte> room;
  size_t size;
  explicit Aligned(const std::vector<std::byte>& bytes) : room(bytes.size() + 512), size(bytes.size()) { std::memcpy(data(), bytes.data(), size); }
  std::byte* data() { return room.data() + (256 - reinterpret_cast<uintptr_t>(room.data()) % 256) % 256; }
};

MlcOpenOptions in_memory(Aligned& bytes) {
  auto o = sized<MlcOpenOptions>();
  o.memory = bytes.data();
  o.memory_bytes = bytes.size;
  return o;
}

}  // namespace

TEST_CASE("the getter answers the versions it knows and nothing else, and no entry of the table is missing") {
  CHECK(mlc_get_api(0) == nullptr);
  CHECK(mlc_get_api(MLC_API_VERSION + 1) == nullptr);
  CHECK(mlc_get_api(UINT32_MAX) == nullptr);
  REQUIRE(mlc_get_api(1));
  CHECK(lib().version == MLC_API_VERSION);
  CHECK(lib().size == sizeof(MlcApi));
  using Entry = void (*)();
  for (size_t at = offsetof(MlcApi, open); at < sizeof(MlcApi); at += sizeof(Entry)) {
    Entry entry = nullptr;
    std::memcpy(&entry, reinterpret_cast<const char*>(&lib()) + at, sizeof entry);
    CHECK_MESSAGE((entry != nullptr), at);
  }
  CHECK(std::strlen(mlc_version_string()) > 0);
}

TEST_CASE("null may be released, and null is an error that says nothing") {
  lib().error_release(nullptr);
  lib().session_release(nullptr);
  lib().model_release(nullptr);
  CHECK(lib().error_code(nullptr) == MLC_OK);
  CHECK(lib().error_number(nullptr) == 0);
  CHECK(std::string(lib().error_text(nullptr)) == "");
  CHECK(std::string(lib().error_message(nullptr)) == "");
  CHECK(std::string(lib().error_help(nullptr)) == "");
  CHECK(lib().error_fact(nullptr, 0) == nullptr);
}

TEST_CASE("a signed and trusted container says what it is") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  REQUIRE_MESSAGE(m.told.code == MLC_OK, m.told.text);
  const MlcModelInfo info = m.info();
  CHECK(info.native_allowed == 1);
  CHECK(info.is_signed == 1);
  CHECK(std::string(info.file) == s.signed_file);
  CHECK(std::string(info.id) == "test/sample");
  CHECK(info.version == 7);
  CHECK(info.file_bytes == std::filesystem::file_size(s.signed_file));
  CHECK(info.num_programs == 3);
  CHECK(info.num_variants == 3);
  CHECK(info.num_golden == 2);
  CHECK(std::string(info.root).find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(std::strlen(info.root) == 64);
  CHECK(std::string(info.trust).find("signed by") != std::string::npos);
  CHECK(lib().model_note(m.model, info.num_notes) == nullptr);
  Opened other(s.unsigned_file, "");
  CHECK(std::string(other.info().root) == info.root);  // it names the content, not the signature
}

TEST_CASE("programs and their ports are told, and none beyond them") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  auto program = sized<MlcProgram>();
  REQUIRE(lib().program(m.model, 0, &program) == MLC_OK);
  CHECK(std::string(program.name) == "main");
  CHECK(program.num_inputs == 1);
  CHECK(program.num_outputs == 1);
  REQUIRE(lib().program(m.model, 1, &program) == MLC_OK);
  CHECK(std::string(program.name) == "rows");
  CHECK(program.num_inputs == 2);
  CHECK(program.num_outputs == 2);
  CHECK(lib().program(m.model, 3, &program) == MLC_USAGE);
  auto port = sized<MlcPort>();
  REQUIRE(lib().port(m.model, 0, 0, 0, &port) == MLC_OK);
  CHECK(std::string(port.name) == "x");
  CHECK(port.dtype == MLC_F32);
  CHECK(port.rank == 1);
  CHECK(port.extents[0] == -1);
  CHECK(std::string(port.dims[0]) == "N");
  CHECK(port.min[0] == 1);
  CHECK(port.max[0] == 1024);
  CHECK(port.list_depth == 0);
  REQUIRE(lib().port(m.model, 0, 1, 0, &port) == MLC_OK);
  CHECK(std::string(port.name) == "y");
  REQUIRE(lib().port(m.model, 1, 0, 0, &port) == MLC_OK);
  CHECK(std::string(port.name) == "l");
  CHECK(port.list_depth == 1);
  REQUIRE(lib().port(m.model, 1, 0, 1, &port) == MLC_OK);
  CHECK(port.dtype == MLC_I64);
  CHECK(port.rank == 0);
  REQUIRE(lib().port(m.model, 1, 1, 1, &port) == MLC_OK);
  CHECK(port.list_depth == 2);
  CHECK(lib().port(m.model, 0, 0, 1, &port) == MLC_USAGE);
  CHECK(lib().port(m.model, 1, 1, 2, &port) == MLC_USAGE);
  CHECK(lib().port(m.model, 3, 0, 0, &port) == MLC_USAGE);
}

TEST_CASE("assets and golden inputs are handed out as they were put in") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  REQUIRE(m.info().num_assets == 1);
  auto asset = sized<MlcAsset>();
  REQUIRE(lib().asset(m.model, 0, &asset) == MLC_OK);
  CHECK(std::string(asset.name) == "labels.txt");
  CHECK(std::string(asset.media_type) == "text/plain");
  CHECK(asset.bytes == 4);
  CHECK(lib().asset(m.model, 1, &asset) == MLC_USAGE);
  MlcBytes bytes{};
  REQUIRE(lib().asset_data(m.model, asset.name, &bytes, nullptr) == MLC_OK);
  CHECK(std::string(static_cast<const char*>(bytes.data), bytes.bytes) == "a\nb\n");
  CHECK(told_by([&](MlcError** e) { return lib().asset_data(m.model, "none.txt", &bytes, e); }).message == "no asset 'none.txt' in " + s.signed_file);
  MlcTensor golden[2] = {};
  REQUIRE(lib().golden_inputs(m.model, 0, golden, 1, nullptr) == MLC_OK);
  CHECK(std::string(golden[0].name) == "x");
  CHECK(golden[0].dtype == MLC_F32);
  REQUIRE(golden[0].rank == 1);
  CHECK(golden[0].shape[0] == 4);
  REQUIRE(golden[0].bytes == 16);
  CHECK(static_cast<const float*>(golden[0].data)[3] == 4);
  CHECK(lib().golden_inputs(m.model, 0, golden, 2, nullptr) == MLC_USAGE);
  CHECK(lib().golden_inputs(m.model, 1, golden, 2, nullptr) == MLC_NOT_FOUND);  // rows has none
}

TEST_CASE("without trust native code is not run, and the portable form answers") {
  const ApiSample& s = api_sample(5);  // native code would answer 5 x
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  for (const std::string& file : {s.unsigned_file, s.signed_file}) {
    Opened m(file, "");
    REQUIRE_MESSAGE(m.told.code == MLC_OK, m.told.text);
    const MlcModelInfo info = m.info();
    CHECK(info.native_allowed == 0);
    CHECK(info.is_signed == (file == s.signed_file));
    const std::string trust = info.trust;
    CHECK_MESSAGE(trust.find(file == s.signed_file ? "not trusted" : "not signed") != std::string::npos, trust);
    for (uint32_t i = 0; i < info.num_variants; ++i) {
      auto v = sized<MlcVariant>();
      REQUIRE(lib().explain(m.model, i, &v) == MLC_OK);
      const bool portable = std::string(v.name) == "portable";
      CHECK(v.fits == (portable ? MLC_FITS : MLC_FITS_NOT));
      CHECK_MESSAGE((portable ? v.reason[0] == 0 : std::string(v.reason).find(trust) != std::string::npos), v.reason);
    }
    Session session(m);
    REQUIRE_MESSAGE(session.told.code == MLC_OK, session.told.text);
    CHECK(session.variant() == "portable");
    CHECK(session.info().is_portable == 1);
    CHECK(session.answer(x) == expected_answer(x, 3));
    Session by_name(m, "native-test"), by_wish(m, nullptr, 0, "native");
    for (const Session* refused : {&by_name, &by_wish}) {
      CHECK(refused->told.code == MLC_NO_VARIANT);
      CHECK(refused->told.number == 2001);
    }
    CHECK_MESSAGE(by_name.told.message.find("variant 'native-test' does not fit this machine") == 0, by_name.told.message);
    CHECK(by_name.told.text.find("native code needs trust, and the file is ") != std::string::npos);
    CHECK(by_name.told.text.find("native-test   fits, and needs trust") != std::string::npos);

    Opened allowed(file, "", true);
    REQUIRE(allowed.told.code == MLC_OK);
    CHECK(allowed.info().native_allowed == 1);
    Session native(allowed);
    CHECK(native.variant() == "native-test");
    CHECK(native.answer(x) == expected_answer(x, 5));
  }
}

TEST_CASE("explain names each failing clause, and a variant that does not fit is refused by name") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  const uint32_t alien = variant_named(m, "alien"), native = variant_named(m, "native-test"), portable = variant_named(m, "portable");
  auto v = sized<MlcVariant>();
  REQUIRE(lib().explain(m.model, alien, &v) == MLC_OK);
  CHECK(v.fits == MLC_FITS_NOT);
  REQUIRE(v.num_failing == 1);
  CHECK(std::string(v.family) == "cpu");
  auto clause = sized<MlcClause>();
  REQUIRE(lib().failing(m.model, alien, 0, &clause) == MLC_OK);
  CHECK(std::string(clause.clause) == "host.arch == 1");
  CHECK(std::string(clause.answer) == "no");
  CHECK(std::strlen(clause.source) > 0);
  CHECK(lib().failing(m.model, alien, 1, &clause) == MLC_USAGE);
  CHECK(lib().failing(m.model, native, 0, &clause) == MLC_USAGE);
  CHECK(lib().failing(m.model, 3, 0, &clause) == MLC_USAGE);
  CHECK(lib().explain(m.model, 3, &v) == MLC_USAGE);
  uint32_t chosen = 99;
  REQUIRE(lib().choose(m.model, nullptr, nullptr, &chosen, nullptr) == MLC_OK);
  CHECK(chosen == native);
  REQUIRE(lib().choose(m.model, "portable", nullptr, &chosen, nullptr) == MLC_OK);
  CHECK(chosen == portable);
  REQUIRE(lib().choose(m.model, nullptr, "portable", &chosen, nullptr) == MLC_OK);
  CHECK(chosen == portable);
  REQUIRE(lib().choose(m.model, nullptr, "native", &chosen, nullptr) == MLC_OK);
  CHECK(chosen == native);
  const auto refusal = [&](const char* variant, const char* require) {
    chosen = 99;
    const Told told = told_by([&](MlcError** e) { return lib().choose(m.model, variant, require, &chosen, e); });
    CHECK(chosen == 99);
    return told;
  };
  CHECK(refusal("alien", nullptr).code == MLC_NO_VARIANT);
  CHECK(refusal("alien", nullptr).number == 2001);
  CHECK(refusal("alien", nullptr).message.find("variant 'alien' does not fit this machine") == 0);
  CHECK(refusal("alien", nullptr).text.find("alien   built for machine 1") != std::string::npos);
  CHECK(refusal("nobody", nullptr).code == MLC_USAGE);
  CHECK(refusal(nullptr, "alien").code == MLC_NO_VARIANT);
}

TEST_CASE("a flipped byte anywhere in a signed container is a message or harmless, never another answer") {
  const ApiSample& s = api_sample();
  const auto good = read_file(s.signed_file);
  REQUIRE(good.size() > 4096);
  const char* keys[] = {s.public_key_file.c_str()};
  const std::vector<float> x = {1, 2, 3, 4};
  const auto outcome = [&](const std::vector<std::byte>& bytes) {
    Aligned aligned(bytes);
    MlcOpenOptions o = in_memory(aligned);
    o.trust_keys = keys;
    o.num_trust_keys = 1;
    Opened m(o);
    if (!m.model) return m.told;
    Session session(m, "native-test");
    if (!session.session) return session.told;
    std::vector<float> in = x;
    const int64_t n = 4;
    std::vector<MlcTensor> out(1);
    const Told ran = session.run("main", {mlc_tensor(in.data(), MLC_F32, 1, &n)}, &out);
    if (ran.code == MLC_OK) CHECK(std::memcmp(out[0].data, expected_answer(x).data(), 16) == 0);
    return ran;
  };
  REQUIRE(outcome(good).code == MLC_OK);
  size_t refused = 0, flips = 0;
  for (size_t at = 0; at < good.size(); at += 61, ++flips) {
    auto bad = good;
    bad[at] ^= std::byte{0x20};
    const Told told = outcome(bad);
    if (told.code == MLC_OK) continue;
    ++refused;
    CHECK_MESSAGE((told.code == MLC_MALFORMED || told.code == MLC_BAD_SIGNATURE || told.code == MLC_UNTRUSTED || told.code == MLC_NO_VARIANT), told.text);
    CHECK(!told.message.empty());
  }
  CHECK(refused * 10 > flips * 9);  // what is not read by this run is not looked at: other variants, assets
}

TEST_CASE("missing files, directories and garbage are errors with their codes") {
  const Opened missing("/nonexistent/x.mlc", "");
  CHECK(missing.told.code == MLC_NOT_FOUND);
  CHECK(missing.told.message.find("/nonexistent/x.mlc") != std::string::npos);
  const Opened folder(api_sample().folder, "");
  CHECK(folder.told.code == MLC_NOT_FOUND);
  const Opened garbage("/proc/self/exe", "");
  CHECK(garbage.told.code == MLC_MALFORMED);
  CHECK_MESSAGE(garbage.told.message.find("/proc/self/exe is an ELF") == 0, garbage.told.text);
  const Opened key(api_sample().public_key_file, "");
  CHECK(key.told.code == MLC_MALFORMED);
  const Opened no_key(api_sample().signed_file, "/nonexistent/key.pem");
  CHECK(no_key.told.code == MLC_NOT_FOUND);
  const std::string text_file = api_sample().folder + "/text.pem";
  std::ofstream(text_file) << "a poem\n";
  const Opened text_as_key(api_sample().signed_file, text_file);
  CHECK(text_as_key.told.code == MLC_MALFORMED);
  CHECK(text_as_key.told.number == 3301);
}

TEST_CASE("senseless options are refused with a sentence") {
  MlcModel* model = nullptr;
  const auto refusal = [&](const MlcOpenOptions* o) {
    const Told told = told_by([&](MlcError** e) { return lib().open(o, &model, e); });
    CHECK(told.code == MLC_USAGE);
    CHECK(model == nullptr);
    return told.message;
  };
  CHECK(refusal(nullptr) == "open: no path, memory, descriptor or reader");
  auto o = sized<MlcOpenOptions>();
  CHECK(refusal(&o) == "open: no path, memory, descriptor or reader");
  o.path = "";
  CHECK(refusal(&o) == "open: no path, memory, descriptor or reader");
  o.path = api_sample().signed_file.c_str();
  for (const int32_t verify : {17, -1, MLC_VERIFY_LAZY + 4}) {
    o.verify = verify;
    CHECK(refusal(&o) == "open: unknown verify mode " + std::to_string(verify));
  }
  o.verify = MLC_VERIFY_LAZY;
  CHECK(lib().open(&o, nullptr, nullptr) == MLC_USAGE);
  CHECK(told_by([&](MlcError** e) { return lib().open(&o, nullptr, e); }).message == "open: no place for the result");
  MlcSession* session = nullptr;
  CHECK(lib().session_create(nullptr, nullptr, &session, nullptr) == MLC_USAGE);
  const Opened m(api_sample().signed_file, "");
  CHECK(lib().session_create(m.model, nullptr, nullptr, nullptr) == MLC_USAGE);
}

TEST_CASE("every way to verify opens the sample, from a file and from memory, and finds a damaged weight; memory may lie anywhere") {
  const ApiSample& s = api_sample();
  const auto good = read_file(s.unsigned_file);
  const std::vector<float> x = {1, 2, 3};
  const auto pattern = sample_weight();
  const auto at = std::search(good.begin(), good.end(), pattern.begin(), pattern.end());
  REQUIRE(at != good.end());
  auto bad = good;
  bad[static_cast<size_t>(at - good.begin()) + 7] ^= std::byte{1};
  const std::string bad_file = s.folder + "/bad.mlc";
  std::ofstream(bad_file, std::ios::binary).write(reinterpret_cast<const char*>(bad.data()), static_cast<std::streamsize>(bad.size()));
  for (const int32_t verify : {MLC_VERIFY_AUTO, MLC_VERIFY_LAZY, MLC_VERIFY_FULL, MLC_VERIFY_COPY})
    for (const bool memory : {false, true})
      for (const bool damaged : {false, true}) {
        CAPTURE(verify);
        CAPTURE(memory);
        Aligned bytes(damaged ? bad : good);
        MlcOpenOptions o = in_memory(bytes);
        if (!memory) o.memory = nullptr, o.path = damaged ? bad_file.c_str() : s.unsigned_file.c_str();
        o.verify = verify;
        Opened m(o);
        Told told = m.told;
        if (m.model) {
          Session session(m);
          REQUIRE(session.session);
          std::vector<float> in = x;
          const int64_t n = 3;
          std::vector<MlcTensor> out(1);
          told = session.run("main", {mlc_tensor(in.data(), MLC_F32, 1, &n)}, &out);
          if (!damaged) CHECK(session.answer(x) == expected_answer(x));
        }
        CHECK(told.code == (damaged ? MLC_BAD_SIGNATURE : MLC_OK));
        CHECK(told.number == (damaged ? 3102 : 0));
        CHECK((m.model != nullptr) == (!damaged || verify != MLC_VERIFY_FULL));  // the others: when the weight is first used
      }
  Aligned odd(good);
  MlcOpenOptions o = in_memory(odd);
  std::memmove(odd.data() + 1, odd.data(), odd.size);
  o.memory = odd.data() + 1;
  const Opened m(o);
  Session session(m);
  CHECK(session.told.code == MLC_OK);
  CHECK(session.answer(x) == expected_answer(x));  // what cannot be used where it lies is copied
}
