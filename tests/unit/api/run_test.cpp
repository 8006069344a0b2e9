// Running programs through the C table: the same checks on native and on portable code.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

constexpr const char* kVariants[] = {"native-test", "portable"};

std::vector<float> iota(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

bool mentions(const Told& told, const std::string& what) {
  return told.text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("every variant computes the program, in the caller's memory and in its own") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const char* variant : kVariants)
    for (const uint32_t threads : {1u, 2u}) {
      CAPTURE(variant);
      Session session(m, variant, threads);
      REQUIRE_MESSAGE(session.told.code == MLC_OK, session.told.text);
      const MlcSessionInfo info = session.info();
      CHECK(std::string(info.variant) == variant);
      CHECK(info.is_portable == (std::string(variant) == "portable"));
      CHECK(info.threads >= 1);
      CHECK(info.threads <= threads);
      CHECK(std::string(info.note) == "");
      for (const int64_t n : {1, 15, 16, 17, 40, 1000, 1024, 40}) {
        std::vector<float> x = iota(static_cast<size_t>(n)), y(static_cast<size_t>(n) + 1, -7.0f);
        const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
        MlcTensor out[1] = {mlc_tensor(y.data(), MLC_F32, 1, &n)};
        REQUIRE(lib().run(session.session, nullptr, &in, 1, out, 1, nullptr) == MLC_OK);
        CHECK(out[0].data == y.data());
        CHECK(out[0].dtype == MLC_F32);
        CHECK(out[0].rank == 1);
        CHECK(out[0].shape[0] == n);
        CHECK(out[0].bytes == static_cast<uint64_t>(n) * 4);
        CHECK(y.back() == -7);  // nothing behind the end
        y.pop_back();
        CHECK(y == expected_answer(x));
        MlcTensor theirs{};
        theirs.name = "y";
        auto how = sized<MlcRunOptions>();
        how.program = "main";
        REQUIRE(lib().run(session.session, &how, &in, 1, &theirs, 1, nullptr) == MLC_OK);
        REQUIRE(theirs.bytes == static_cast<uint64_t>(n) * 4);
        CHECK(theirs.data != y.data());
        CHECK(std::memcmp(theirs.data, y.data(), theirs.bytes) == 0);
      }
      CHECK(session.answer(iota(33)) == expected_answer(iota(33)));
    }
}

TEST_CASE("a session of the model's choice is native where that is allowed") {
  const ApiSample& s = api_sample(5);
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  CHECK(session.variant() == "native-test");
  CHECK(session.answer(iota(20)) == expected_answer(iota(20), 5));
  Session portable(m, "portable");
  CHECK(portable.answer(iota(20)) == expected_answer(iota(20), 3));
}

TEST_CASE("inputs are checked: name, type, rank, size, missing, twice, unknown program") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  alignas(64) float x[16] = {};
  const int64_t shape[2] = {16, 1};
  const MlcTensor good = mlc_tensor(x, MLC_F32, 1, shape);
  const auto refused = [&](std::vector<MlcTensor> in, const std::string& what) {
    const Told told = session.run("main", std::move(in));
    CHECK(told.code == MLC_INPUT_MISMATCH);
    CHECK(told.number == 4001);
    CHECK_MESSAGE(mentions(told, what), told.text);
  };
  CHECK(session.run("main", {good}).code == MLC_OK);
  MlcTensor t = good;
  t.name = "z";
  refused({t}, "the program has no 'z'");
  CHECK(mentions(session.run("main", {t}), "known: x"));
  refused({}, "an input is missing");
  CHECK(mentions(session.run("main", {}), "x   missing, expected f32[N]"));
  refused({good, good}, "more tensors than the program has");
  t.name = "x";
  refused({t, t}, "input 'x' is given twice");
  refused({mlc_tensor(x, MLC_F32, 2, shape)}, "axes");
  refused({mlc_tensor(x, MLC_F32, 0, nullptr)}, "axes");
  refused({mlc_tensor(x, MLC_I32, 1, shape)}, "found i32, expected f32");
  t = good;
  t.bytes = 63;
  refused({t}, "63 bytes");
  t = good;
  t.data = nullptr;
  refused({t}, "x");
  for (const int32_t dtype : {99, 0, -1, MLC_F6E3M2 + 1}) {
    t = good;
    t.dtype = dtype;
    refused({t}, "no valid type or shape");
  }
  t = good;
  t.shape = nullptr;
  refused({t}, "no valid type or shape");
  t = good;
  t.rank = UINT32_MAX;
  refused({t}, "no valid type or shape");
  const int64_t negative = -1, huge = INT64_MAX;
  refused({mlc_tensor(x, MLC_F32, 1, &negative)}, "x");
  t = mlc_tensor(x, MLC_F32, 1, &huge);
  CHECK(session.run("main", {t}).code != MLC_OK);
  for (const char* program : {"mean", ""}) {
    const Told told = session.run(program, {good});
    CHECK(told.code == MLC_USAGE);
    CHECK_MESSAGE(told.message == std::string("no program '") + program + "' in variant 'native-test'", told.message);
    REQUIRE(told.facts.size() == 1);
    CHECK(told.facts[0] == "it has main, rows, shift");
  }
  CHECK(session.answer(iota(16)) == expected_answer(iota(16)));  // as usable as before
}

TEST_CASE("outputs are checked: names, how many, and room for them") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  float x[16] = {}, y[16] = {};
  const int64_t n = 16;
  const MlcTensor in = mlc_tensor(x, MLC_F32, 1, &n);
  std::vector<MlcTensor> out = {mlc_tensor(y, MLC_F32, 1, &n)};
  out[0].bytes = 63;
  Told told = session.run("main", {in}, &out);
  CHECK(told.code == MLC_INPUT_MISMATCH);
  CHECK(told.number == 4004);
  CHECK_MESSAGE(mentions(told, "output 'y' takes 64 bytes, 63 are given"), told.text);
  out = {mlc_tensor(y, MLC_F32, 1, &n)};
  out[0].name = "z";
  told = session.run("main", {in}, &out);
  CHECK(told.code == MLC_INPUT_MISMATCH);
  CHECK_MESSAGE(mentions(told, "the program has no 'z'"), told.text);
  out = {mlc_tensor(y, MLC_F32, 1, &n), mlc_tensor(y, MLC_F32, 1, &n)};
  CHECK(session.run("main", {in}, &out).code == MLC_INPUT_MISMATCH);
}

TEST_CASE("shapes are inferred without a run") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  const int64_t n = 16;
  const MlcTensor in = mlc_tensor(nullptr, MLC_F32, 1, &n);
  MlcTensor inferred{};
  REQUIRE(lib().infer_shapes(session.session, "main", &in, 1, &inferred, 1, nullptr) == MLC_OK);
  CHECK(inferred.dtype == MLC_F32);
  REQUIRE(inferred.rank == 1);
  CHECK(inferred.shape[0] == 16);
  CHECK(inferred.bytes == 64);
  const MlcTensor wrong = mlc_tensor(nullptr, MLC_I32, 1, &n);
  CHECK(lib().infer_shapes(session.session, "main", &wrong, 1, &inferred, 1, nullptr) == MLC_INPUT_MISMATCH);
  CHECK(lib().infer_shapes(session.session, "mean", &in, 1, &inferred, 1, nullptr) == MLC_USAGE);
  CHECK(lib().infer_shapes(session.session, nullptr, &in, 1, &inferred, 1, nullptr) == MLC_OK);  // of main
}

TEST_CASE("the self-test passes on right code and fails on code that computes something else") {
  for (const int64_t factor : {3, 4})
    for (const char* variant : kVariants) {
      const bool right = factor == 3 || std::string(variant) == "portable";
      const ApiSample& s = api_sample(factor);
      Opened m(s.signed_file, s.public_key_file);
      Session session(m, variant);
      REQUIRE(session.session);
      auto result = sized<MlcSelftest>();
      const Told told = told_by([&](MlcError** e) { return lib().selftest(session.session, nullptr, &result, e); });
      CHECK(told.code == (right ? MLC_OK : MLC_SELFTEST));
      CHECK(result.vectors == 2);
      CHECK(result.failures == (right ? 0 : 1));
      CHECK(result.max_abs == (right ? 0 : 4));
      CHECK(result.max_rel == doctest::Approx(right ? 0 : 4.0 / 15));
      const std::string complaint = right ? "" : "vector 'first' of main: y[3] is 19, expected 15 (rel 1e-06)";
      CHECK(std::string(result.text) == complaint);
      CHECK(told.message == (right ? "" : "native-test: " + complaint));
      CHECK(lib().selftest(session.session, "first", &result, nullptr) == told.code);
      CHECK(result.vectors == 1);
      CHECK(std::string(result.text) == complaint);
      CHECK(lib().selftest(session.session, "second", &result, nullptr) == MLC_NOT_FOUND);
    }
}

TEST_CASE("views of the items of lists count against what the session may hold") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  float a = 1;
  const int64_t one = 1, position = 0;
  const std::vector<MlcTensor> items(2000, mlc_tensor(&a, MLC_F32, 1, &one));
  MlcTensor list{}, index = mlc_tensor(const_cast<int64_t*>(&position), MLC_I64, 0, nullptr);
  list.list_depth = 1;
  list.num_items = static_cast<uint32_t>(items.size());
  list.items = items.data();
  index.name = "p";
  const auto run = [&](uint64_t limit) {
    auto o = sized<MlcSessionOptions>();
    o.variant = "portable";
    o.memory_limit = limit;
    Session session(m, o);
    if (!session.session) return session.told;
    std::vector<MlcTensor> out(2);
    return session.run("rows", {list, index}, &out);
  };
  // The least limit with which it runs; with less these views are what is missing, being made last.
  uint64_t too_little = 1, enough = uint64_t{64} << 20;
  REQUIRE(run(enough).code == MLC_OK);
  while (enough - too_little > 1) {
    const uint64_t middle = too_little + (enough - too_little) / 2;
    (run(middle).code == MLC_OK ? enough : too_little) = middle;
  }
  const Told told = run(too_little);
  CHECK(told.code == MLC_RESOURCE);
  CHECK_MESSAGE(mentions(told, "E6006"), told.text);
  CHECK_MESSAGE(mentions(told, "views of the items of lists"), told.text);
}

TEST_CASE("lists go in and out; sizes that only a run tells are told by it") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const char* variant : kVariants) {
    Session session(m, variant);
    REQUIRE(session.session);
    float a[] = {1, 2, 3}, b[] = {4};
    const int64_t three = 3, one = 1;
    int64_t position = -1;
    const MlcTensor items[] = {mlc_tensor(a, MLC_F32, 1, &three), mlc_tensor(b, MLC_F32, 1, &one)};
    MlcTensor list{}, index = mlc_tensor(&position, MLC_I64, 0, nullptr);
    list.list_depth = 1;
    list.num_items = 2;
    list.items = items;
    index.name = "p";
    std::vector<MlcTensor> out(2);
    for (int round = 0; round < 2; ++round) {
      out.assign(2, {});
      const Told told = session.run("rows", {list, index}, &out);
      REQUIRE_MESSAGE(told.code == MLC_OK, told.text);
      REQUIRE(out[0].bytes == 4);
      CHECK(*static_cast<float*>(out[0].data) == 4);
      CHECK(out[1].list_depth == 2);
      REQUIRE(out[1].num_items == 2);
      REQUIRE(out[1].items[0].num_items == 1);  // the list without its last item
      CHECK(out[1].items[0].list_depth == 1);
      CHECK(out[1].items[0].items[0].shape[0] == 3);
      REQUIRE(out[1].items[1].num_items == 2);
      CHECK(out[1].items[1].items[0].shape[0] == 3);
      CHECK(std::memcmp(out[1].items[1].items[0].data, a, sizeof a) == 0);
      CHECK(*static_cast<float*>(out[1].items[1].items[1].data) == 4);
      CHECK(out[1].items[1].items[1].list_depth == 0);
    }
    position = 0;
    out.assign(2, {});
    REQUIRE(session.run("rows", {list, index}, &out).code == MLC_OK);
    REQUIRE(out[0].bytes == 12);
    CHECK(std::memcmp(out[0].data, a, sizeof a) == 0);
    position = -1;
    const auto refused = [&](std::vector<MlcTensor> in, const std::string& what) {
      const Told told = session.run("rows", std::move(in));
      CHECK(told.code == MLC_INPUT_MISMATCH);
      CHECK_MESSAGE(mentions(told, what), told.text);
    };
    refused({index}, "position -1 in a list of 0");  // a list that is not given is empty
    position = 2;
    refused({list, index}, "position 2 in a list of 2");
    position = -1;
    MlcTensor bad = list;
    bad.list_depth = 2;
    refused({bad, index}, "lists 2 deep found, 1 expected");
    bad.list_depth = 1;
    bad.items = nullptr;
    refused({bad, index}, "no such list");
    refused({items[0], index}, "lists 0 deep found, 1 expected");
    MlcTensor in[] = {list, index};
    const Told told = told_by([&](MlcError** e) { return lib().infer_shapes(session.session, "rows", in, 2, out.data(), 2, e); });
    CHECK(told.code == MLC_UNSUPPORTED);
    CHECK_MESSAGE(mentions(told, "only after a run"), told.text);
  }
}

TEST_CASE("a token that was cancelled before ends every run that is given it, and no other") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  MlcCancel* token = nullptr;
  REQUIRE(lib().cancel_create(&token, nullptr) == MLC_OK);
  const int64_t n = 16;
  std::vector<float> x = iota(16);
  const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
  for (const char* variant : kVariants) {
    Session session(m, variant);
    if (variant == kVariants[0]) CHECK(session.run("main", {in}, nullptr, token).code == MLC_OK);
    lib().cancel(token);
    for (int round = 0; round < 2; ++round) {
      const Told told = session.run("main", {in}, nullptr, token);
      CHECK(told.code == MLC_CANCELLED);
      CHECK(told.message == "the run was cancelled");
    }
    CHECK(lib().state_reset(session.session, nullptr) == MLC_OK);
    CHECK(session.answer(x) == expected_answer(x));
  }
  lib().cancel_release(token);
}

TEST_CASE("the time limit of a run is its own, and the session's where it has none") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const char* variant : kVariants) {
    auto o = sized<MlcSessionOptions>();
    o.variant = variant;
    o.time_limit_ns = 1;  // no run is as short as that
    MlcSession* session = nullptr;
    REQUIRE(lib().session_create(m.model, &o, &session, nullptr) == MLC_OK);
    const int64_t n = 16;
    std::vector<float> x = iota(16);
    const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
    const auto run = [&](uint64_t limit) {
      auto how = sized<MlcRunOptions>();
      how.time_limit_ns = limit;
      return told_by([&](MlcError** e) { return lib().run(session, &how, &in, 1, nullptr, 0, e); });
    };
    CHECK(run(0).code == MLC_CANCELLED);
    CHECK(run(0).number == 6004);
    CHECK(run(MLC_NO_LIMIT).code == MLC_OK);
    CHECK(run(uint64_t{1} << 40).code == MLC_OK);
    CHECK(run(2).number == 6004);
    lib().session_release(session);
  }
}

TEST_CASE("a profile counts the runs of each instruction") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  auto o = sized<MlcSessionOptions>();
  o.profile = 1;
  MlcSession* session = nullptr;
  REQUIRE(lib().session_create(m.model, &o, &session, nullptr) == MLC_OK);
  float x[16] = {};
  const int64_t n = 16;
  const MlcTensor in = mlc_tensor(x, MLC_F32, 1, &n);
  MlcTensor out{};
  for (int round = 0; round < 3; ++round) REQUIRE(lib().run(session, nullptr, &in, 1, &out, 1, nullptr) == MLC_OK);
  for (const char* program : {"main", static_cast<const char*>(nullptr)}) {
    auto entry = sized<MlcProfileEntry>();
    REQUIRE(lib().profile(session, program, 0, &entry) == MLC_OK);
    CHECK(entry.runs == 3);
    CHECK(std::string(entry.name) == "scale");
    CHECK(lib().profile(session, program, 1, &entry) == MLC_NOT_FOUND);
    CHECK(entry.runs == 3);
  }
  auto entry = sized<MlcProfileEntry>();
  CHECK(lib().profile(session, "mean", 0, &entry) == MLC_USAGE);
  lib().session_release(session);
}

TEST_CASE("sessions of one model run at the same time on several threads") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  std::atomic<int> wrong{0}, right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      MlcSession* session = nullptr;
      auto o = sized<MlcSessionOptions>();
      o.threads = 1;
      o.variant = kVariants[t % 2];
      if (lib().session_create(m.model, &o, &session, nullptr) != MLC_OK) return void(++wrong);
      const int64_t n = 100;
      std::vector<float> x(100, float(t)), y(100);
      const std::vector<float> expected = expected_answer(x);
      const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
      for (int round = 0; round < 50; ++round) {
        std::fill(y.begin(), y.end(), -1.0f);
        MlcTensor out[1] = {mlc_tensor(y.data(), MLC_F32, 1, &n)};
        if (lib().run(session, nullptr, &in, 1, out, 1, nullptr) == MLC_OK && y == expected) ++right;
        else ++wrong;
      }
      lib().session_release(session);
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(right == 200);
}
