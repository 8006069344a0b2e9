#include "signing/version_marks.h"

#include <sys/stat.h>

#include <thread>

#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

Digest key_of(std::string_view name) { return sha256(name); }
std::string line(const Digest& key, std::string_view rest) { return to_hex(key) + " " + std::string(rest) + "\n"; }

}  // namespace

TEST_CASE("marks are written and read as they were, sorted and private") {
  TempFolder home;
  const std::string state = home / "state/mlc";
  CHECK(VersionMarks::load(state)->version(key_of("a"), "acme/cat") == 0);
  const std::vector<Digest> keys{key_of("b"), key_of("a")};
  REQUIRE(remember_version(state, keys, "acme/cat", 7).ok());
  REQUIRE(remember_version(state, keys, "acme/bird", UINT64_MAX).ok());
  REQUIRE(remember_version(state, std::span(keys).first(1), "acme/cat", 5).ok());  // never lowers one
  const auto marks = VersionMarks::load(state);
  REQUIRE(marks.ok());
  CHECK(marks->version(key_of("a"), "acme/cat") == 7);
  CHECK(marks->version(key_of("b"), "acme/cat") == 7);
  CHECK(marks->version(key_of("a"), "acme/bird") == UINT64_MAX);
  CHECK(marks->version(key_of("c"), "acme/cat") == 0);
  CHECK(marks->version(key_of("a"), "acme/ca") == 0);
  struct stat info;
  REQUIRE(::stat((state + "/versions").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  REQUIRE(::stat(state.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
  CHECK(std::distance(std::filesystem::directory_iterator(state), {}) == 1);  // no temporary file, no lock is left
  CHECK(VersionMarks::parse(marks->encode(), "f")->encode() == marks->encode());
}

TEST_CASE("a file of marks that is damaged or that others may change is an error, not an empty one") {
  const std::string good = "mlc-versions 1\n" + line(key_of("a"), "3 acme/cat");
  REQUIRE(VersionMarks::parse(good, "f").ok());
  const std::string first = "mlc-versions 1\n", mark = line(key_of("a"), "3 acme/cat");
  for (const std::string& text :
       {std::string(), good.substr(0, good.size() - 1), first.substr(0, 5), "mlc-versions 2\n" + mark, mark, first + "\n",
        first + line(key_of("a"), "03 acme/cat"), first + line(key_of("a"), "0 acme/cat"),
        first + line(key_of("a"), "-3 acme/cat"), first + line(key_of("a"), "3 acme/cat "),
        first + line(key_of("a"), "18446744073709551616 acme/cat"), first + line(key_of("a"), "3 acme"),
        first + line(key_of("a"), "3  acme/cat"), first + mark + mark, first + mark.substr(1), first + mark + "x\n"}) {
    CAPTURE(text);
    const auto marks = VersionMarks::parse(text, "f");
    REQUIRE_FALSE(marks.ok());
    CHECK(marks.status().number == 3306);
    CHECK(marks.status().message.find("f:") == 0);
  }
  std::string upper = good;
  for (char& c : upper) c = c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c;
  CHECK_FALSE(VersionMarks::parse("mlc-versions 1\n" + upper.substr(15), "f").ok());

  TempFolder home;
  REQUIRE(remember_version(home / "s", std::vector<Digest>{key_of("a")}, "acme/cat", 3).ok());
  write_file(home / "s/versions", "mlc-versions 1\ngarbage\n");
  CHECK(VersionMarks::load(home / "s").status().number == 3306);
  CHECK(remember_version(home / "s", std::vector<Digest>{key_of("a")}, "acme/cat", 4).number == 3306);
  CHECK(read_file(home / "s/versions") == "mlc-versions 1\ngarbage\n");
  write_file(home / "s/versions", good);
  std::filesystem::permissions(home / "s/versions", std::filesystem::perms(0666));
  CHECK(VersionMarks::load(home / "s").status().number == 3304);
}

TEST_CASE("marks have a limit, and none is dropped for another one") {
  VersionMarks marks;
  for (size_t i = 0; i < VersionMarks::kMaxMarks; ++i) REQUIRE(marks.raise(key_of(std::to_string(i)), "acme/cat", 1));
  CHECK_FALSE(marks.raise(key_of("one more"), "acme/cat", 1));
  CHECK(marks.raise(key_of("7"), "acme/cat", 2));
  const std::string text = marks.encode();
  CHECK(VersionMarks::parse(text, "f").ok());
  CHECK_FALSE(VersionMarks::parse(text + line(Digest{std::byte{0xff}}, "1 acme/cat"), "f").ok());
  TempFolder home;
  std::filesystem::create_directory(home / "s");
  std::filesystem::permissions(home / "s", std::filesystem::perms(0700));
  write_file(home / "s/versions", text);
  CHECK(remember_version(home / "s", std::vector<Digest>{key_of("one more")}, "acme/cat", 1).code == Code::Resource);
}

TEST_CASE("writers at the same time lose nothing of each other") {
  TempFolder home;
  const std::string state = home / "mlc";
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&state, t] {
        for (uint64_t version = 1; version <= 8; ++version) {
          const std::vector<Digest> mine{key_of(std::to_string(t)), key_of("all")};
          if (!remember_version(state, mine, "acme/cat", version * 4 + static_cast<uint64_t>(t)).ok()) return;
        }
      });
  }
  const auto marks = VersionMarks::load(state);
  REQUIRE(marks.ok());
  for (uint64_t t = 0; t < 4; ++t) CHECK(marks->version(key_of(std::to_string(t)), "acme/cat") == 32 + t);
  CHECK(marks->version(key_of("all"), "acme/cat") == 35);
}
