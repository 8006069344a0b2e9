// No memory, at each place where some is asked for: every call of the C API says MLC_RESOURCE, nothing is lost, and what was
// opened before works as before. The allocations of the whole program are counted, and one of them, or all from one on, fail.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <new>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

std::atomic<int64_t> live{0};
std::atomic<uint64_t> asked{0};
std::atomic<uint64_t> failing{0};      // the number of the allocation that fails; 0: none
std::atomic<bool> all_after{false};    // and all that follow
std::atomic<uint64_t> failed{0};

bool must_fail() {
  const uint64_t at = failing.load(std::memory_order_relaxed);
  if (at == 0) return false;
  const uint64_t number = asked.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool fails = number == at || (number > at && all_after.load(std::memory_order_relaxed));
  failed += fails;
  return fails;
}

void* take(size_t bytes, size_t alignment) noexcept {
  if (must_fail()) return nullptr;
  void* memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                                                       : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory) ++live;
  return memory;
}
void* take_or_throw(size_t bytes, size_t alignment) {
  if (void* memory = take(bytes, alignment)) return memory;
  throw std::bad_alloc();
}
void give_back(void* memory) noexcept {
  if (memory) --live;
  std::free(memory);
}

}  // namespace

void* operator new(size_t n) { return take_or_throw(n, 1); }
void* operator new[](size_t n) { return take_or_throw(n, 1); }
void* operator new(size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<size_t>(a)); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return take(n, 1); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return take(n, 1); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return take(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return take(n, static_cast<size_t>(a)); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, size_t) noexcept { give_back(p); }
void operator delete[](void* p, size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { give_back(p); }

namespace {

const float kX[] = {1, 2, 3};
const int64_t kThree = 3;

// The program main gives what it should, with all the memory there is.
bool is_right(MlcSession* session) {
  MlcTensor in = mlc_tensor(const_cast<float*>(kX), MLC_F32, 1, &kThree), out{};
  if (lib().run(session, nullptr, &in, 1, &out, 1, nullptr) != MLC_OK || out.bytes != sizeof kX) return false;
  const float expected[] = {3, 7, 11};
  return std::memcmp(out.data, expected, sizeof expected) == 0;
}

// What an application does in its life, with as little memory of its own as it takes. Ends at the first failure.
struct Life {
  const char* path;
  const char* key;
  const char* variant;
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  MlcCancel* token = nullptr;
  MlcPool* pool = nullptr;
  int code = MLC_OK;
  bool is_told = true;  // the failure, with code and sentence
  const char* at = "";

  bool did(const char* what, int answer) {
    code = answer;
    at = what;
    return answer == MLC_OK;
  }
  bool did(const char* what, int answer, MlcError* error) {
    if (did(what, answer)) return true;
    is_told = lib().error_code(error) == answer && lib().error_message(error)[0] && lib().error_text(error)[0];
    lib().error_release(error);
    return false;
  }
  template <class Call>
  bool does(const char* what, const Call& call) {
    MlcError* error = nullptr;
    const int answer = call(&error);
    return did(what, answer, error);
  }

  bool opens() {
    const char* keys[] = {key};
    auto o = sized<MlcOpenOptions>();
    o.path = path;
    o.verify = MLC_VERIFY_COPY;
    o.trust_keys = keys;
    o.num_trust_keys = 1;
    uint32_t chosen = 0;
    MlcBytes labels{};
    MlcTensor golden{};
    return does("open", [&](MlcError** e) { return lib().open(&o, &model, e); }) &&
           does("choose", [&](MlcError** e) { return lib().choose(model, nullptr, nullptr, &chosen, e); }) &&
           does("asset_data", [&](MlcError** e) { return lib().asset_data(model, "labels.txt", &labels, e); }) &&
           does("golden_inputs", [&](MlcError** e) { return lib().golden_inputs(model, 0, &golden, 1, e); });
  }
  bool begins() {
    auto o = sized<MlcSessionOptions>();
    o.variant = variant;
    o.threads = 2;
    o.profile = 1;
    auto two = sized<MlcPoolOptions>();
    two.threads = 2;
    if (!does("pool_create", [&](MlcError** e) { return lib().pool_create(&two, &pool, e); })) return false;
    o.pool = pool;
    auto info = sized<MlcSessionInfo>();
    return does("session_create", [&](MlcError** e) { return lib().session_create(model, &o, &session, e); }) &&
           did("session_info", lib().session_info(session, &info)) && std::strcmp(info.variant, variant) == 0 &&
           does("cancel_create", [&](MlcError** e) { return lib().cancel_create(&token, e); });
  }
  bool runs() {
    MlcTensor in = mlc_tensor(const_cast<float*>(kX), MLC_F32, 1, &kThree), out[2] = {}, list{};
    int64_t position = 0;
    list.list_depth = list.num_items = 1;
    list.items = &in;
    const MlcTensor rows[] = {list, mlc_tensor(&position, MLC_I64, 0, nullptr)};
    auto how = sized<MlcRunOptions>();
    how.cancel = token;
    const auto run = [&](const char* program, const MlcTensor* inputs, uint32_t num_inputs, uint32_t num_outputs) {
      how.program = program;
      out[0] = out[1] = {};
      return does(program, [&](MlcError** e) { return lib().run(session, &how, inputs, num_inputs, out, num_outputs, e); });
    };
    return run("main", &in, 1, 1) && run("rows", rows, 2, 2) && run("shift", &in, 1, 1) &&
           does("infer_shapes", [&](MlcError** e) { return lib().infer_shapes(session, "main", &in, 1, out, 1, e); });
  }
  bool runs_by_itself() {
    struct End {
      std::mutex mu;
      std::condition_variable changed;
      bool is_there = false;
      int code = MLC_OK;
      MlcError* error = nullptr;
    } end;
    MlcTensor in = mlc_tensor(const_cast<float*>(kX), MLC_F32, 1, &kThree), out{};
    const MlcDone done = [](void* user, int answer, MlcError* error) {
      End& e = *static_cast<End*>(user);
      const std::lock_guard lock(e.mu);
      e.code = answer, e.error = error, e.is_there = true;
      e.changed.notify_one();
    };
    auto how = sized<MlcRunOptions>();
    how.program = "main";
    how.cancel = token;
    if (!does("run_async", [&](MlcError** e) { return lib().run_async(session, &how, &in, 1, &out, 1, done, &end, e); })) return false;
    std::unique_lock lock(end.mu);
    end.changed.wait(lock, [&] { return end.is_there; });
    if (!did("the end of run_async", end.code, end.error)) return false;
    return does("run_start", [&](MlcError** e) { return lib().run_start(session, &how, &in, 1, &out, 1, e); }) &&
           does("run_wait", [&](MlcError** e) { return lib().run_wait(session, UINT64_MAX, e); });
  }
  bool keeps_state() {
    MlcBytes saved{};
    return does("state_save", [&](MlcError** e) { return lib().state_save(session, &saved, e); }) &&
           does("state_restore", [&](MlcError** e) { return lib().state_restore(session, saved.data, saved.bytes, e); }) &&
           does("state_reset", [&](MlcError** e) { return lib().state_reset(session, e); });
  }
  bool looks_around() {
    auto v = sized<MlcVariant>();
    auto entry = sized<MlcProfileEntry>();
    auto tested = sized<MlcSelftest>();
    return did("explain", lib().explain(model, 0, &v)) && did("profile", lib().profile(session, "main", 0, &entry)) &&
           does("selftest", [&](MlcError** e) { return lib().selftest(session, nullptr, &tested, e); });
  }
  // A mistake of the application: its sentence takes memory as well.
  bool errs() {
    MlcTensor none{};
    MlcError* error = nullptr;
    const int answer = lib().run(session, nullptr, &none, 1, nullptr, 0, &error);
    if (answer != MLC_INPUT_MISMATCH) return did("a wrong input", answer, error);
    lib().error_release(error);
    return true;
  }
  bool lives() { return opens() && begins() && runs() && runs_by_itself() && keeps_state() && looks_around() && errs(); }
  void ends() {
    lib().cancel_release(token);
    lib().session_release(session);
    lib().pool_release(pool);
    lib().model_release(model);
  }
};

size_t open_files() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

struct Observed {
  int code = MLC_OK;
  bool is_complete = false, is_told = true, still_right = true, balanced = true, reached = false;
  const char* at = "";
};

// One life in which the n-th allocation fails.
Observed live_with_failure(const ApiSample& s, const char* variant, uint64_t n, bool and_after) {
  Life life{s.signed_file.c_str(), s.public_key_file.c_str(), variant};
  Observed seen;
  const int64_t before = live;
  asked = failed = 0;
  all_after = and_after;
  failing = n;
  seen.is_complete = life.lives();
  failing = 0;
  seen.reached = failed > 0;
  seen.code = life.code, seen.is_told = life.is_told, seen.at = life.at;
  if (life.session) {
    seen.still_right = is_right(life.session);
  } else if (life.model) {
    MlcSession* another = nullptr;
    auto o = sized<MlcSessionOptions>();
    o.variant = variant;
    seen.still_right = lib().session_create(life.model, &o, &another, nullptr) == MLC_OK && is_right(another);
    lib().session_release(another);
  }
  life.ends();
  seen.balanced = live == before;
  return seen;
}

}  // namespace

TEST_CASE("each allocation fails once: a lack of memory is said, nothing is lost, and what is open goes on") {
  const ApiSample& s = api_sample();
  for (const char* const variant : {"native-test", "portable"}) {
    const std::string of = variant;
    CAPTURE(of);
    for (int warm = 0; warm < 2; ++warm) REQUIRE(live_with_failure(s, variant, UINT64_MAX, false).is_complete);
    const size_t files = open_files();
    for (const bool and_after : {false, true}) {
      CAPTURE(and_after);
      uint64_t n = 1, survived = 0;
      for (;; ++n) {
        REQUIRE(n < 100'000);
        const Observed seen = live_with_failure(s, variant, n, and_after);
        if (!seen.reached) {
          CHECK(seen.is_complete);
          break;
        }
        CAPTURE(n);
        const std::string at = seen.at;
        CAPTURE(at);
        survived += seen.code == MLC_OK;
        CHECK((seen.code == MLC_OK || seen.code == MLC_RESOURCE));
        CHECK(seen.is_told);
        CHECK(seen.still_right);
        CHECK(seen.balanced);
      }
      CHECK(n > 300);              // there is something to fail
      CHECK(survived * 10 < n);    // and what fails is said
      CHECK(open_files() == files);
      MESSAGE(std::string(variant), std::string(and_after ? ": all from one on, " : ": one alone, "), n - 1, " allocations, ", survived, " that nobody missed");
    }
  }
}

TEST_CASE("the error that is kept for a lack of memory says what it is, and may be released") {
  const ApiSample& s = api_sample();
  Life life{s.signed_file.c_str(), s.public_key_file.c_str(), "portable"};
  const int64_t before = live;
  MlcError* error = nullptr;
  auto o = sized<MlcOpenOptions>();
  o.path = life.path;
  asked = failed = 0;
  all_after = true;
  failing = 1;
  const int code = lib().open(&o, &life.model, &error);
  failing = 0;
  CHECK(code == MLC_RESOURCE);
  CHECK(life.model == nullptr);
  REQUIRE(error);
  CHECK(live == before);  // it took none itself
  CHECK(lib().error_code(error) == MLC_RESOURCE);
  CHECK(lib().error_number(error) == 0);
  CHECK(std::string(lib().error_message(error)) == "no memory");
  CHECK(std::string(lib().error_text(error)) == "error: no memory");
  CHECK(lib().error_fact(error, 0) == nullptr);
  CHECK(std::string(lib().error_help(error)).empty());
  lib().error_release(error);
  CHECK(lib().error_code(error) == MLC_RESOURCE);  // and is there for the next
}
