// Lazily hashed weights: what is checked when, who notices, and that threads agree.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/support/sample_container.h"

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
