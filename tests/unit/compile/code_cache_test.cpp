#include "packager/compile/cache/code_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

using namespace mlc;
using namespace mlc::compile;

namespace {

struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mlc-cache-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()));
    path = pattern;
    auto opened = CodeCache::open(path + "/code");
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
    cache = std::move(opened).value();
  }
  ~Folder() { std::filesystem::remove_all(path); }

  std::string key(int n) const { return code_key("one", *targets::find_target("armv8-a"), std::to_string(n)); }
  std::string file(int n) const { return path + "/code/" + key(n); }
  void keep(int n, size_t bytes) { cache->keep(key(n), std::vector<std::byte>(bytes, std::byte{7})); }
  void used_at(int n, time_t seconds) {
    const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(::utimensat(AT_FDCWD, file(n).c_str(), times, 0) == 0);
  }
  bool has(int n) const { return std::filesystem::exists(file(n)); }

  std::string path;
  std::unique_ptr<CodeCache> cache;
};

}  // namespace

TEST_CASE_FIXTURE(Folder, "what is kept is found, by its key only") {
  keep(1, 100);
  const auto found = cache->find(key(1));
  REQUIRE(found);
  CHECK(found->size() == 100);
  CHECK(!cache->find(key(2)));
  CHECK(cache->found() == 1);
  CHECK(cache->missed() == 1);
  keep(3, 0);
  CHECK(cache->find(key(3)).value().empty());
}

TEST_CASE("a key tells compilers, targets and kernels apart") {
  const auto& arm = *targets::find_target("armv8-a");
  const std::string key = code_key("one", arm, "kernel");
  CHECK(key.size() == 64);
  CHECK(key == code_key("one", arm, "kernel"));
  CHECK(key != code_key("two", arm, "kernel"));
  CHECK(key != code_key("one", *targets::find_target("rv64gc"), "kernel"));
  CHECK(key != code_key("one", arm, "other"));
  CHECK(!compiler_identity().empty());
  CHECK(code_generator_identity() != compiler_identity());
  CHECK(code_generator_identity().starts_with("code generator "));
  CHECK(code_generator_identity().find("libLLVM") != std::string::npos);
}

TEST_CASE_FIXTURE(Folder, "those used longest ago go first") {
  for (int n = 0; n < 4; ++n) keep(n, 1000), used_at(n, 1000 + n);
  REQUIRE(cache->find(key(0)));  // used now
  const auto all = cache->contents();
  REQUIRE(all.ok());
  CHECK(all->entries == 4);
  const auto none = cache->shrink(all->bytes);
  REQUIRE(none.ok());
  CHECK(none->entries == 0);
  const auto two = cache->shrink(all->bytes / 2);
  REQUIRE(two.ok());
  CHECK(two->entries == 2);
  CHECK(has(0));
  CHECK(!has(1));
  CHECK(!has(2));
  CHECK(has(3));
}

TEST_CASE_FIXTURE(Folder, "what writers left behind goes once nobody can be writing it") {
  const std::string old = path + "/code/.new-1-" + key(1), young = path + "/code/.new-2-" + key(1);
  std::ofstream(old) << "half", std::ofstream(young) << "half";
  const struct timespec times[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, old.c_str(), times, 0) == 0);
  REQUIRE(cache->shrink(0).ok());
  CHECK(!std::filesystem::exists(old));
  CHECK(std::filesystem::exists(young));
}
