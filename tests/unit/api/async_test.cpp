// Runs that go on by themselves.
#include <doctest/doctest.h>

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/support/api_sample.h"
#include "tests/support/decoder_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

// Something that threads wait for.
class Event {
 public:
  void happen() {
    const std::lock_guard lock(mu_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(int count = 1) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  int count() {
    const std::lock_guard lock(mu_);
    return count_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  int count_ = 0;
};

// What `done` was told.
struct Outcome {
  Event event;
  int code = -1, number = 0;
  std::function<void()> then = [] {};

  static void done(void* user, int code, MlcError* error) {
    Outcome& o = *static_cast<Outcome*>(user);
    o.code = code;
    o.number = lib().error_number(error);
    CHECK((error == nullptr) == (code == MLC_OK));
    CHECK(lib().error_code(error) == code);
    lib().error_release(error);
    o.then();
    o.event.happen();
  }
};

// A model whose one step is a function of the test, which may wait there.
struct Stoppable {
  std::function<void()> step = [] {};
  std::vector<std::byte> room;
  MlcModel* model = nullptr;
  uint8_t file[3] = {2, 3, 7};
  int64_t extent = 3;
  MlcTensor in = mlc_tensor(file, MLC_U8, 1, &extent);

  // False: this machine cannot make it.
  bool open() {
    const std::vector<std::byte>& bytes = decoder_container(true);
    if (bytes.empty()) return false;
    room.resize(bytes.size() + 1024);  // containers lie at a multiple of 256, with some readable bytes behind
    std::byte* const at = room.data() + (256 - reinterpret_cast<uintptr_t>(room.data()) % 256);
    std::memcpy(at, bytes.data(), bytes.size());
    const MlcService service{"image.decode", &Stoppable::decode, this};
    auto o = sized<MlcOpenOptions>();
    o.memory = at;
    o.memory_bytes = bytes.size();
    o.allow_unsigned = 1;
    o.services = &service;
    o.num_services = 1;
    CHECK(lib().open(&o, &model, nullptr) == MLC_OK);
    return model != nullptr;
  }
  MlcSession* session(MlcPool* pool = nullptr) const {
    auto o = sized<MlcSessionOptions>();
    o.pool = pool;
    MlcSession* session = nullptr;
    CHECK(lib().session_create(model, &o, &session, nullptr) == MLC_OK);
    return session;
  }
  int start(MlcSession* session, Outcome& outcome) {
    return lib().run_async(session, nullptr, &in, 1, nullptr, 0, &Outcome::done, &outcome, nullptr);
  }
  ~Stoppable() { lib().model_release(model); }

 private:
  static int decode(void* user, MlcServiceCall* call) {
    static_cast<Stoppable*>(user)->step();
    const int64_t shape[] = {2, 3, 3};
    void* const pixels = call->result(call, 0, MLC_U8, 3, shape);
    if (!pixels) return MLC_RESOURCE;
    std::memset(pixels, 1, 18);
    return MLC_OK;
  }
};

}  // namespace

TEST_CASE("a run that goes on by itself gives the answer, and done is called once, when the outputs are set") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const char* variant : {"native-test", "portable"})
    for (const uint32_t threads : {1u, 2u}) {
      Session session(m, variant, threads);
      std::vector<float> x(40, 2.0f);
      const int64_t n = 40;
      const MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n);
      for (int round = 0; round < 20; ++round) {
        MlcTensor out{};
        Outcome outcome;
        {
          std::string program = "main";  // options are copied
          auto how = sized<MlcRunOptions>();
          how.program = program.c_str();
          REQUIRE(lib().run_async(session.session, &how, &in, 1, &out, 1, &Outcome::done, &outcome, nullptr) == MLC_OK);
        }
        outcome.event.wait_for();
        CHECK(outcome.code == MLC_OK);
        REQUIRE(out.bytes == 160);
        CHECK(std::memcmp(out.data, expected_answer(x).data(), out.bytes) == 0);
        if (round == 10) CHECK(session.answer(x) == expected_answer(x));
        CHECK(outcome.event.count() == 1);
      }
    }
}

TEST_CASE("a failure is told to done, whose error it is; one of the call itself is not") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  const int64_t n = 4;
  float x[4] = {};
  MlcTensor in = mlc_tensor(x, MLC_F32, 1, &n);
  in.name = "no such input";
  Outcome outcome;
  REQUIRE(lib().run_async(session.session, nullptr, &in, 1, nullptr, 0, &Outcome::done, &outcome, nullptr) == MLC_OK);
  outcome.event.wait_for();
  CHECK(outcome.code == MLC_INPUT_MISMATCH);
  CHECK(outcome.number == 4001);

  Outcome never;
  const auto told = [&](MlcSession* which, const MlcRunOptions* how, MlcDone done) {
    return told_by([&](MlcError** e) { return lib().run_async(which, how, &in, 1, nullptr, 0, done, &never, e); }).code;
  };
  MlcRunOptions short_options{};
  short_options.size = 8;
  CHECK(told(nullptr, nullptr, &Outcome::done) == MLC_USAGE);
  CHECK(told(session.session, nullptr, nullptr) == MLC_USAGE);
  CHECK(told(session.session, &short_options, &Outcome::done) == MLC_USAGE);
  CHECK(never.event.count() == 0);
}

TEST_CASE("a cancelled token ends a run that goes on by itself, and may be released before") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  const int64_t n = 4;
  float x[4] = {};
  const MlcTensor in = mlc_tensor(x, MLC_F32, 1, &n);
  auto how = sized<MlcRunOptions>();
  REQUIRE(lib().cancel_create(&how.cancel, nullptr) == MLC_OK);
  lib().cancel(how.cancel);
  Outcome outcome;
  REQUIRE(lib().run_async(session.session, &how, &in, 1, nullptr, 0, &Outcome::done, &outcome, nullptr) == MLC_OK);
  lib().cancel_release(how.cancel);
  outcome.event.wait_for();
  CHECK(outcome.code == MLC_CANCELLED);
}

TEST_CASE("the session may be run again from within done, by itself or not, and release waits for the last one") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  auto session = std::make_unique<Session>(m, "portable");
  const std::vector<float> x = {1, 2, 3, 4};
  const int64_t n = 4;
  std::vector<float> mine = x;
  const MlcTensor in = mlc_tensor(mine.data(), MLC_F32, 1, &n);
  Outcome outcome;
  int left = 20;
  outcome.then = [&] {
    CHECK(session->answer(x) == expected_answer(x));
    if (--left == 0) return;
    CHECK(lib().run_async(session->session, nullptr, &in, 1, nullptr, 0, &Outcome::done, &outcome, nullptr) == MLC_OK);
  };
  REQUIRE(lib().run_async(session->session, nullptr, &in, 1, nullptr, 0, &Outcome::done, &outcome, nullptr) == MLC_OK);
  outcome.event.wait_for(20);
  session.reset();
  CHECK(left == 0);
  CHECK(outcome.event.count() == 20);
}

TEST_CASE("while a run goes on its session takes no other, and release waits until done has returned") {
  Stoppable m;
  if (!m.open()) return;
  Event inside, go_on;
  m.step = [&] {
    inside.happen();
    go_on.wait_for();
  };
  MlcSession* const session = m.session();
  Outcome outcome, never;
  REQUIRE(m.start(session, outcome) == MLC_OK);
  inside.wait_for();
  CHECK(m.start(session, never) == MLC_USAGE);
  const Told told = told_by([&](MlcError** e) { return lib().run(session, nullptr, &m.in, 1, nullptr, 0, e); });
  CHECK(told.code == MLC_USAGE);
  CHECK(told.message == "a run of this session goes on: wait until it is over");
  std::thread releases([&] {
    lib().session_release(session);
    CHECK(outcome.event.count() == 1);
  });
  go_on.happen();
  releases.join();
  CHECK(outcome.code == MLC_OK);
  CHECK(never.event.count() == 0);
}

TEST_CASE("sessions that run by themselves do so at the same time, in however small a pool") {
  constexpr int kSessions = 9;
  Stoppable m;
  if (!m.open()) return;
  auto o = sized<MlcPoolOptions>();
  o.threads = 1;
  MlcPool* pool = nullptr;
  REQUIRE(lib().pool_create(&o, &pool, nullptr) == MLC_OK);
  Event inside;
  m.step = [&] {
    inside.happen();
    inside.wait_for(kSessions);  // until all of them are here
  };
  std::vector<MlcSession*> sessions;
  std::vector<std::unique_ptr<Outcome>> outcomes;
  for (int i = 0; i < kSessions; ++i) {
    sessions.push_back(m.session(pool));
    outcomes.push_back(std::make_unique<Outcome>());
    REQUIRE(m.start(sessions.back(), *outcomes.back()) == MLC_OK);
  }
  for (auto& outcome : outcomes) {
    outcome->event.wait_for();
    CHECK(outcome->code == MLC_OK);
  }
  for (MlcSession* session : sessions) lib().session_release(session);
  lib().pool_release(pool);
}

TEST_CASE("a run for which no thread can be started is an error of the call, and the session works afterwards") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  const int64_t n = 4;
  float x[4] = {};
  const MlcTensor in = mlc_tensor(x, MLC_F32, 1, &n);
  pthread_attr_t before, huge;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t{1} << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  Outcome outcome;
  const auto start = [&](MlcError** e) {
    return lib().run_async(session.session, nullptr, &in, 1, nullptr, 0, &Outcome::done, &outcome, e);
  };
  const Told told = told_by(start);
  REQUIRE(pthread_setattr_default_np(&before) == 0);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&huge);
  CHECK(told.code == MLC_RESOURCE);
  CHECK(outcome.event.count() == 0);
  CHECK(session.answer({1, 2}) == expected_answer({1, 2}));
  REQUIRE(start(nullptr) == MLC_OK);
  outcome.event.wait_for();
  CHECK(outcome.code == MLC_OK);
}

// A run that is begun and asked for, of kX through "main".
namespace {

struct Asked {
  std::vector<float> x = {1, 2, 3, 4};
  int64_t n = 4;
  MlcTensor in = mlc_tensor(x.data(), MLC_F32, 1, &n), out{};

  int start(MlcSession* session, const MlcRunOptions* how = nullptr, MlcError** error = nullptr) {
    return lib().run_start(session, how, &in, 1, &out, 1, error);
  }
  void check_answer() const {
    REQUIRE(out.bytes == 16);
    CHECK(std::memcmp(out.data, expected_answer(x).data(), out.bytes) == 0);
  }
};

}  // namespace

TEST_CASE("a run that is begun gives its end to who waits for it, once, and the session is free again") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const char* variant : {"native-test", "portable"}) {
    Session session(m, variant);
    for (int round = 0; round < 20; ++round) {
      Asked run;
      std::string program = "main";
      auto how = sized<MlcRunOptions>();
      how.program = program.c_str();
      REQUIRE(run.start(session.session, &how) == MLC_OK);
      program = "nothing";  // options are copied
      if (round % 2 == 0)
        while (!lib().run_done(session.session)) std::this_thread::yield();
      REQUIRE(lib().run_wait(session.session, round % 2 ? UINT64_MAX : 0, nullptr) == MLC_OK);
      run.check_answer();
      CHECK(lib().run_done(session.session) == 1);
      CHECK(told_by([&](MlcError** e) { return lib().run_wait(session.session, 0, e); }).code == MLC_USAGE);
      if (round == 10) CHECK(session.answer(run.x) == expected_answer(run.x));
    }
  }
}

TEST_CASE("while a run that was begun goes on, waiting ends in time, and the session does nothing else") {
  Stoppable m;
  if (!m.open()) return;
  Event inside, go_on;
  m.step = [&] {
    inside.happen();
    go_on.wait_for();
  };
  MlcSession* const session = m.session();
  REQUIRE(lib().run_start(session, nullptr, &m.in, 1, nullptr, 0, nullptr) == MLC_OK);
  inside.wait_for();
  MlcError* error = nullptr;
  CHECK(lib().run_wait(session, 0, &error) == MLC_NO);
  CHECK(lib().run_wait(session, 1'000'000, &error) == MLC_NO);
  CHECK(error == nullptr);
  CHECK(lib().run_done(session) == 0);
  Outcome never;
  CHECK(m.start(session, never) == MLC_USAGE);
  MlcBytes saved{};
  auto tested = sized<MlcSelftest>();
  const auto refuses = [&](const auto& call) {
    const Told told = told_by(call);
    CHECK(told.code == MLC_USAGE);
    CHECK(told.message == "a run of this session goes on: wait until it is over");
  };
  refuses([&](MlcError** e) { return lib().run(session, nullptr, &m.in, 1, nullptr, 0, e); });
  refuses([&](MlcError** e) { return lib().run_start(session, nullptr, &m.in, 1, nullptr, 0, e); });
  refuses([&](MlcError** e) { return lib().infer_shapes(session, nullptr, &m.in, 1, nullptr, 0, e); });
  refuses([&](MlcError** e) { return lib().state_save(session, &saved, e); });
  refuses([&](MlcError** e) { return lib().state_restore(session, m.file, 3, e); });
  refuses([&](MlcError** e) { return lib().state_reset(session, e); });
  refuses([&](MlcError** e) { return lib().selftest(session, nullptr, &tested, e); });
  go_on.happen();
  CHECK(lib().run_wait(session, UINT64_MAX, nullptr) == MLC_OK);
  lib().session_release(session);
  CHECK(never.event.count() == 0);
}

TEST_CASE("how a run that was begun fails is told by who waits; what cannot begin says so at once") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  Session session(m);
  Asked wrong;
  wrong.in.name = "no such input";
  REQUIRE(wrong.start(session.session) == MLC_OK);
  const Told told = told_by([&](MlcError** e) { return lib().run_wait(session.session, UINT64_MAX, e); });
  CHECK(told.code == MLC_INPUT_MISMATCH);
  CHECK(told.number == 4001);

  auto how = sized<MlcRunOptions>();
  REQUIRE(lib().cancel_create(&how.cancel, nullptr) == MLC_OK);
  lib().cancel(how.cancel);
  Asked cancelled;
  REQUIRE(cancelled.start(session.session, &how) == MLC_OK);
  lib().cancel_release(how.cancel);
  CHECK(lib().run_wait(session.session, UINT64_MAX, nullptr) == MLC_CANCELLED);

  MlcRunOptions short_options{};
  short_options.size = 8;
  Asked none;
  CHECK(none.start(nullptr) == MLC_USAGE);
  CHECK(none.start(session.session, &short_options) == MLC_USAGE);
  CHECK(lib().run_wait(nullptr, 0, nullptr) == MLC_USAGE);
  CHECK(lib().run_done(nullptr) == 1);
  CHECK(session.answer(none.x) == expected_answer(none.x));
}

TEST_CASE("a session may go with a run that was begun and that nobody asked for") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  for (const bool fails : {false, true}) {
    Asked run;
    if (fails) run.in.name = "no such input";
    Session session(m, "portable");
    REQUIRE(run.start(session.session) == MLC_OK);
  }
}

TEST_CASE("runs of many sessions are begun by one thread and end in any order") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Asked> runs(6);
  for (Asked& run : runs) {
    run.in = mlc_tensor(run.x.data(), MLC_F32, 1, &run.n);
    sessions.push_back(std::make_unique<Session>(m, "portable"));
    REQUIRE(run.start(sessions.back()->session) == MLC_OK);
  }
  for (size_t left = runs.size(); left > 0;)
    for (size_t k = 0; k < runs.size(); ++k) {
      if (runs[k].n == 0 || lib().run_wait(sessions[k]->session, 100'000, nullptr) != MLC_OK) continue;
      runs[k].check_answer();
      runs[k].n = 0;
      --left;
    }
}
