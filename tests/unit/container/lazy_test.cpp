// Lazily hashed weights: what is checked when, who notices, and that threads agree.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/container/source.h"
#include "tests/support/containers/sample_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

struct File {
  std::string path =
      (std::filesystem::temp_directory_path() / ("mlc_lazy_" + std::to_string(::getpid()) + ".mlc")).string();
  explicit File(Bytes bytes) {
    int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(fd);
  }
  ~File() { std::filesystem::remove(path); }
  void poke(uint64_t offset, std::byte value) {
    int fd = ::open(path.c_str(), O_WRONLY);
    REQUIRE(::pwrite(fd, &value, 1, static_cast<off_t>(offset)) == 1);
    ::close(fd);
  }
};

// What was read of a container that cannot be mapped, and by whom.
struct Record {
  uint64_t weights = 0, end = 0;  // where they lie in the file; nothing else is recorded
  size_t wait_for_threads = 1;
  std::mutex mu;
  std::condition_variable arrived;
  std::map<uint64_t, int> reads;  // by offset of the leaf
  std::set<std::thread::id> threads;
};

class RecordingSource final : public Source {
 public:
  RecordingSource(Bytes bytes, Record& record) : bytes_(bytes), record_(record) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), bytes_.size())) return Status(Code::Malformed, "beyond the end");
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    if (offset < record_.weights || offset >= record_.end) return ok();
    std::unique_lock lock(record_.mu);
    ++record_.reads[offset - record_.weights];
    record_.threads.insert(std::this_thread::get_id());
    record_.arrived.notify_all();
    record_.arrived.wait_for(lock, std::chrono::seconds(30), [&] { return record_.threads.size() >= record_.wait_for_threads; });
    return ok();
  }
  Result<const std::byte*> map(uint64_t, uint64_t) const override { return Status(Code::Resource, "cannot be mapped"); }

 private:
  Bytes bytes_;
  Record& record_;
  std::string name_ = "recorded";
};

uint64_t start_of_weights(Bytes bytes, uint64_t* end = nullptr) {
  auto opened = Container::open_memory(bytes, "x", trusting());
  REQUIRE(opened.ok());
  const uint32_t weights = *(*opened)->find_segment("weights");
  const uint64_t start = (*opened)->segment_offset(weights);
  if (end) *end = start + (*opened)->manifest().segments[weights].stored_len;
  return start;
}

}  // namespace

TEST_CASE("Opening lazily reads no weights, and a damaged leaf is found at its first use") {
  auto bytes = sample_bytes({.weights_len = 4u << 20});
  auto pristine = Container::open_memory(bytes, "x", trusting());
  REQUIRE(pristine.ok());
  const uint32_t weights = *(*pristine)->find_segment("weights");
  const uint64_t start = (*pristine)->segment_offset(weights);
  CHECK(start % 65536 == 0);
  bytes[start + (2u << 20) + 5] ^= std::byte{1};  // leaf 2

  File file(bytes);
  CHECK_FALSE(Container::open(file.path, trusting(Verify::Full)).ok());
  for (Verify verify : {Verify::Lazy, Verify::Copy}) {
    auto opened = Container::open(file.path, trusting(verify));
    REQUIRE(opened.ok());
    const Container& c = **opened;
    CHECK(c.acquire(weights, 0, 1u << 20).ok());
    CHECK(c.acquire(weights, 3u << 20, 100).ok());
    auto bad = c.acquire(weights, (2u << 20) - 10, 20);
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.status().code == Code::BadSignature);
    CHECK(bad.status().message.find("segment \"weights\": leaf 2 of 5") != std::string::npos);
    CHECK_FALSE(c.acquire(weights, 0, 1).ok());  // poisoned: even leaves known to be good
    auto report = c.verify_report();
    REQUIRE(report.size() == 1);
    CHECK(report[0].message.find("leaf 2 of 5") != std::string::npos);
    CHECK(c.segment(*c.manifest().variants[0].plan).ok());
  }
}

TEST_CASE("Ranges outside a segment and segments without weights are refused") {
  auto bytes = sample_bytes();
  auto opened = Container::open_memory(bytes, "x", trusting());
  REQUIRE(opened.ok());
  const Container& c = **opened;
  const uint32_t weights = *c.find_segment("weights");
  const uint64_t len = c.manifest().segments[weights].decoded_len;
  CHECK(c.acquire(weights, len, 0).ok());
  CHECK_FALSE(c.acquire(weights, len, 1).ok());
  CHECK_FALSE(c.acquire(weights, UINT64_MAX, 2).ok());
  CHECK_FALSE(c.acquire(weights, 1, UINT64_MAX).ok());
  CHECK_FALSE(c.acquire(9999, 0, 1).ok());
  CHECK_FALSE(c.acquire(*c.find_segment("assets"), 0, 1).ok());
  CHECK_FALSE(c.segment(9999).ok());
  CHECK_FALSE(c.bytes({weights, len, 1}).ok());
  CHECK_FALSE(c.asset(9999).ok());
}

TEST_CASE("Threads that acquire the same leaves share the work and all see good bytes") {
  auto bytes = sample_bytes({.weights_len = 8u << 20});
  File file(bytes);
  auto opened = Container::open(file.path, trusting());
  REQUIRE(opened.ok());
  const Container& c = **opened;
  const uint32_t table = *c.find_tensor("c.table");
  const auto expected = noise(8u << 20, 2);
  std::vector<int> good(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      auto pointer = c.acquire_tensor(table);
      good[t] = pointer.ok() && std::memcmp(*pointer, expected.data(), expected.size()) == 0;
    });
  for (auto& thread : threads) thread.join();
  CHECK(good == std::vector<int>{1, 1, 1, 1});
}

TEST_CASE("A copy stays right when the file is rewritten afterwards, a mapping does not") {
  auto bytes = sample_bytes({.weights_len = 2u << 20});
  File file(bytes);
  auto copied = Container::open(file.path, trusting(Verify::Copy));
  REQUIRE(copied.ok());
  const uint32_t table = *(*copied)->find_tensor("c.table");
  auto pointer = (*copied)->acquire_tensor(table);
  REQUIRE(pointer.ok());
  const format::Ref ref = (*copied)->manifest().tensors[table].copies[0].ref;
  file.poke((*copied)->segment_offset(ref.segment) + ref.offset, ~noise(1, 2)[0]);
  CHECK(**pointer == noise(1, 2)[0]);
  CHECK_FALSE((*copied)->verify_report().empty());

  auto lazy = Container::open(file.path, trusting());
  REQUIRE(lazy.ok());
  CHECK_FALSE((*lazy)->acquire_tensor(table).ok());
}

TEST_CASE("A file that shrinks while it is open is an error, not a crash, for everything that is read") {
  auto bytes = sample_bytes({.weights_len = 1u << 20});
  File file(bytes);
  auto opened = Container::open(file.path, trusting(Verify::Copy));
  REQUIRE(opened.ok());
  std::filesystem::resize_file(file.path, 8192);
  auto plan = (*opened)->segment(*(*opened)->manifest().variants[0].plan);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().message.find("became shorter") != std::string::npos);
  CHECK_FALSE((*opened)->acquire_tensor(2).ok());
}

TEST_CASE("Preparing reads and hashes each leaf once") {
  const auto bytes = sample_bytes({.weights_len = 40u << 20});
  Record record;
  record.weights = start_of_weights(bytes, &record.end);
  auto opened = Container::open_source(std::make_unique<RecordingSource>(bytes, record), trusting());
  REQUIRE(opened.ok());
  const Container& c = **opened;
  const uint32_t weights = *c.find_segment("weights");
  const uint64_t len = c.manifest().segments[weights].decoded_len, piece = 1u << 20;
  CHECK(record.reads.empty());
  for (uint64_t at = 0; at < len; at += piece) c.prepare(weights, at, std::min(piece, len - at));
  const size_t leaves = (len + piece - 1) / piece;
  CHECK(record.reads.size() == leaves);
  REQUIRE(c.acquire(weights, 0, len).ok());
  for (const auto& [offset, count] : record.reads) CHECK_MESSAGE(count == 1, offset);
}

TEST_CASE("Preparing what is damaged or does not exist says nothing; acquiring says all") {
  auto bytes = sample_bytes({.weights_len = 4u << 20});
  const uint64_t start = start_of_weights(bytes);
  bytes[start + (2u << 20) + 5] ^= std::byte{1};  // leaf 2
  auto opened = Container::open_memory(bytes, "x", trusting());
  REQUIRE(opened.ok());
  const Container& c = **opened;
  const uint32_t weights = *c.find_segment("weights");
  c.prepare(9999, 0, 1);
  c.prepare(weights, UINT64_MAX, 2);
  c.prepare(weights, 0, UINT64_MAX);
  c.prepare(*c.find_segment("assets"), 0, 1);
  c.prepare(weights, 0, 0);
  CHECK(c.acquire(weights, 0, 1).ok());  // none of these did harm
  c.prepare(weights, 2u << 20, 1);
  auto bad = c.acquire(weights, 0, 1);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.status().number == 3102);
  CHECK(bad.status().message.find("segment \"weights\": leaf 2 of 5") != std::string::npos);
  CHECK(bad.status().facts.size() == 2);  // both digests, whoever hashed it
}

TEST_CASE("Verifying everything divides the weights between the threads it may use") {
  auto bytes = sample_bytes({.weights_len = 32u << 20});
  for (const unsigned workers : {1u, 3u}) {
    Record record;
    record.weights = start_of_weights(bytes, &record.end);
    record.wait_for_threads = workers;
    OpenOptions options = trusting(Verify::Full);
    options.workers = workers;
    auto opened = Container::open_source(std::make_unique<RecordingSource>(bytes, record), options);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? std::string() : opened.status().text()));
    CHECK(record.threads.size() == workers);
    CHECK(record.reads.size() == 33);
    for (const auto& [offset, count] : record.reads) CHECK_MESSAGE(count == 1, offset);
  }
  bytes[start_of_weights(bytes) + (20u << 20)] ^= std::byte{1};
  OpenOptions options = trusting(Verify::Full);
  options.workers = 3;
  auto damaged = Container::open_memory(bytes, "x", options);
  REQUIRE_FALSE(damaged.ok());
  CHECK(damaged.status().number == 3102);
  CHECK(damaged.status().message.find("leaf 20 of 33") != std::string::npos);
}
