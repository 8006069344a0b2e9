// What an early end needs: things that are registered are removed, work does not count on threads, problems are told together.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/files/unfinished.h"
#include "base/problems.h"
#include "base/run_on_threads.h"

using namespace mlc;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "mlc-unfinished-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()));
    path = pattern;
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const {
    std::ofstream(path / name) << "text";
    return (path / name).string();
  }
  fs::path path;
};

}  // namespace

TEST_CASE("unfinished files and folders are removed, finished ones and others stay") {
  const Folder folder;
  const std::string other = folder.file("other"), done = folder.file("done"), begun = folder.file("begun");
  fs::create_directory(folder.path / "work");
  for (int k = 0; k < 300; ++k) folder.file("work/" + std::to_string(k) + ".o");  // more than one call of the system tells
  std::optional<Unfinished> finished(done);
  Unfinished first(begun);
  const Unfinished moved(std::move(first)), work((folder.path / "work").string()), absent((folder.path / "absent").string());
  finished.reset();
  remove_unfinished();
  CHECK(fs::exists(other));
  CHECK(fs::exists(done));
  CHECK_FALSE(fs::exists(begun));
  CHECK_FALSE(fs::exists(folder.path / "work"));
}

TEST_CASE("a child removes nothing of its parent") {
  const Folder folder;
  const std::string begun = folder.file("begun");
  const Unfinished unfinished(begun);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    forget_unfinished();
    remove_unfinished();
    _exit(0);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(fs::exists(begun));
}

TEST_CASE("places for unfinished things become free again") {
  const Folder folder;
  for (int round = 0; round < 100; ++round) const Unfinished brief(folder.file("brief"));
  const std::string begun = folder.file("begun");
  const Unfinished unfinished(begun);
  remove_unfinished();
  CHECK_FALSE(fs::exists(begun));
  CHECK(fs::exists(folder.path / "brief"));
}

TEST_CASE("threads share the work, whatever their number") {
  for (const unsigned threads : {0u, 1u, 2u, 7u}) {
    std::atomic<int> next = 0, sum = 0;
    run_on_threads(threads, [&] {
      for (int k; (k = next++) < 1000;) sum += k;
    });
    CHECK(sum == 499500);
  }
}

TEST_CASE("of several problems the first is the message, the others are facts") {
  Status all;
  add_problem(all, ok());
  CHECK(all.ok());
  add_problem(all, Status(Code::Usage, 5009, "one").fact("more of one"));
  add_problem(all, Status(Code::NotFound, 1003, "two").fact("more of two"));
  CHECK(all.code == Code::Usage);
  CHECK(all.number == 5009);
  CHECK(all.message == "one");
  CHECK(all.facts == std::vector<std::string>{"more of one", "two", "more of two"});
}
