// Memory of the application: what goes through it, and what happens when it has none.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

// Keeps books, checks what is given back, and has no memory at one of the calls.
struct Books {
  std::mutex mu;
  std::map<void*, std::pair<uint64_t, uint64_t>> live;  // bytes and alignment
  uint64_t calls = 0, failing = 0, bytes = 0, peak = 0;
  bool is_wrong = false;
  MlcAllocator allocator = sized<MlcAllocator>();

  Books() {
    allocator.user = this;
    allocator.allocate = [](void* user, uint64_t bytes, uint64_t alignment) { return static_cast<Books*>(user)->take(bytes, alignment); };
    allocator.release = [](void* user, void* memory, uint64_t bytes, uint64_t alignment) {
      static_cast<Books*>(user)->give_back(memory, bytes, alignment);
    };
  }
  void* take(uint64_t size, uint64_t alignment) {
    const std::lock_guard lock(mu);
    if (++calls == failing) return nullptr;
    is_wrong = is_wrong || size == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0 || size % 64 != 0;
    void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    std::memset(memory, 0xdd, size);
    live[memory] = {size, alignment};
    bytes += size;
    peak = std::max(peak, bytes);
    return memory;
  }
  void give_back(void* memory, uint64_t size, uint64_t alignment) {
    const std::lock_guard lock(mu);
    const auto found = live.find(memory);
    if (found == live.end() || found->second != std::pair(size, alignment)) return void(is_wrong = true);
    bytes -= size;
    live.erase(found);
    std::free(memory);
  }
};

// Opens, runs, saves and restores with these allocators. The first error, or OK.
int use(const ApiSample& s, const char* variant, Books& of_model, Books& of_session) {
  auto o = sized<MlcOpenOptions>();
  o.path = s.unsigned_file.c_str();
  o.allow_unsigned = 1;
  o.verify = MLC_VERIFY_COPY;
  o.allocator = &of_model.allocator;
  Opened m(o);
  if (m.told.code != MLC_OK) return m.told.code;
  auto so = sized<MlcSessionOptions>();
  so.variant = variant;
  so.threads = 2;
  so.allocator = &of_session.allocator;
  Session session(m, so);
  if (session.told.code != MLC_OK) return session.told.code;
  float x[] = {1, 2, 3};
  const int64_t n = 3;
  std::vector<MlcTensor> out(1);
  if (const Told told = session.run("main", {mlc_tensor(x, MLC_F32, 1, &n)}, &out); told.code != MLC_OK) return told.code;
  CHECK(std::memcmp(out[0].data, expected_answer({1, 2, 3}).data(), 12) == 0);
  CHECK(of_session.bytes > 0);
  MlcTensor list{};
  int64_t position = 0;
  const MlcTensor item = mlc_tensor(x, MLC_F32, 1, &n);
  list.list_depth = list.num_items = 1;
  list.items = &item;
  if (const Told told = session.run("rows", {list, mlc_tensor(&position, MLC_I64, 0, nullptr)}); told.code != MLC_OK) return told.code;
  if (const Told told = session.run("shift", {item}); told.code != MLC_OK) return told.code;
  MlcBytes saved{};
  if (const int code = lib().state_save(session.session, &saved, nullptr); code != MLC_OK) return code;
  const std::vector<char> copy(static_cast<const char*>(saved.data), static_cast<const char*>(saved.data) + saved.bytes);
  return lib().state_restore(session.session, copy.data(), copy.size(), nullptr);
}

}  // namespace

TEST_CASE("weights, outputs, copies, values and state lie in memory of the application, and all of it is given back") {
  const ApiSample& s = api_sample();
  for (const char* variant : {"native-test", "portable"}) {
    Books of_model, of_session;
    CHECK(use(s, variant, of_model, of_session) == MLC_OK);
    CHECK(of_model.peak > sample_weight().size());
    CHECK(of_session.calls > 3);
    for (const Books* books : {&of_model, &of_session}) {
      CHECK_FALSE(books->is_wrong);
      CHECK(books->live.empty());
    }
  }
}

TEST_CASE("an allocator that has no memory at any of its calls is a lack of memory, and nothing is lost") {
  const ApiSample& s = api_sample();
  for (const char* variant : {"native-test", "portable"})
    for (const bool model : {true, false})
      for (uint64_t failing = 1, survived = 0;; ++failing) {
        REQUIRE(failing < 1000);
        Books of_model, of_session;
        (model ? of_model : of_session).failing = failing;
        const int code = use(s, variant, of_model, of_session);
        for (const Books* books : {&of_model, &of_session}) {
          CHECK_FALSE(books->is_wrong);
          CHECK(books->live.empty());
        }
        if ((model ? of_model : of_session).calls < failing) {
          CHECK(code == MLC_OK);
          CHECK(survived <= 1);  // the copy of the weights: workers that prepare it may fail, the run asks again
          break;
        }
        survived += model && code == MLC_OK;
        CHECK_MESSAGE((code == MLC_RESOURCE || (model && code == MLC_OK)), failing);
      }
}

TEST_CASE("memory of the application counts against the session's limit") {
  const ApiSample& s = api_sample();
  Opened m(s.unsigned_file, "", true);
  Books books;
  auto o = sized<MlcSessionOptions>();
  o.allocator = &books.allocator;
  o.memory_limit = 4096;
  {
    Session session(m, o);
    REQUIRE(session.session);
    std::vector<float> x(1024, 1);
    const int64_t n = 1024;
    const Told told = session.run("main", {mlc_tensor(x.data(), MLC_F32, 1, &n)});
    CHECK(told.code == MLC_RESOURCE);
    CHECK(told.number == 6006);
  }
  CHECK(books.live.empty());
  CHECK(books.peak <= 8192);
}

TEST_CASE("memory that is not aligned as asked is no memory") {
  const ApiSample& s = api_sample();
  static int given, taken;
  given = taken = 0;
  auto crooked = sized<MlcAllocator>();
  crooked.allocate = [](void*, uint64_t bytes, uint64_t alignment) -> void* {
    ++given;
    return static_cast<char*>(std::aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment)) + 8;
  };
  crooked.release = [](void*, void* memory, uint64_t, uint64_t) {
    ++taken;
    std::free(static_cast<char*>(memory) - 8);
  };
  Opened m(s.unsigned_file, "", true);
  auto o = sized<MlcSessionOptions>();
  o.allocator = &crooked;
  {
    Session session(m, o);
    REQUIRE(session.session);
    float x = 1;
    const int64_t n = 1;
    CHECK(session.run("main", {mlc_tensor(&x, MLC_F32, 1, &n)}).code == MLC_RESOURCE);
  }
  CHECK(given > 0);
  CHECK(given == taken);
}
