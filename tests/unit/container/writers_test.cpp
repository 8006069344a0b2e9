// Who may write a file decides whether it is copied while it is verified.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/containers/sample_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

struct File {
  std::string folder, path;
  File(mode_t mode, mode_t folder_mode) {
    char name[] = "/tmp/mlc-writers-XXXXXX";
    folder = ::mkdtemp(name);
    path = folder + "/m.mlc";
    const auto bytes = sample_bytes();
    const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(fd);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    REQUIRE(::chmod(folder.c_str(), folder_mode) == 0);
  }
  ~File() {
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
  }
};

bool is_copied(const std::string& path, Verify verify, const signing::TrustSet* trust = &test_trust()) {
  OpenOptions options = trusting(verify);
  options.trust = trust;
  auto opened = Container::open(path, options);
  REQUIRE_MESSAGE(opened.ok(), opened.status().text());
  return (*opened)->copies();
}

const signing::TrustSet& strict() {
  static const signing::TrustSet trust = [] {
    signing::PolicyFile policy;
    policy.path = "trust.json";
    policy.keys.push_back({.key = test_key().public_key(), .name = "test", .origin = signing::KeyOrigin::PolicyFile});
    policy.rules.push_back({.models = {"*"}, .level = signing::Level::Strict});
    return signing::TrustSet::of({}, std::move(policy));
  }();
  return trust;
}

int memory_file(int seals) {
  const int fd = ::memfd_create("m", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  const auto bytes = sample_bytes();
  REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(::fcntl(fd, F_ADD_SEALS, seals) == 0);
  return fd;
}

}  // namespace

TEST_CASE("a file is copied where mode, owner or folder let others write") {
  struct Case {
    mode_t file, folder;
    bool copied;
  };
  for (const Case& c : {Case{0600, 0700, false}, {0444, 0755, false}, {0644, 0755, false}, {0664, 0755, true},
                        {0646, 0755, true}, {0600, 0770, true}, {0600, 0707, true}, {0600, 01777, false}}) {
    CAPTURE(c.file);
    CAPTURE(c.folder);
    const File file(c.file, c.folder);
    CHECK(is_copied(file.path, Verify::Auto) == c.copied);
    CHECK(is_copied(file.path, Verify::Lazy) == false);
    CHECK(is_copied(file.path, Verify::Full) == false);
    CHECK(is_copied(file.path, Verify::Copy) == true);
  }
  if (::geteuid() != 0) return;
  const File file(0600, 0700);
  REQUIRE(::chown(file.path.c_str(), 12345, 0) == 0);
  CHECK(is_copied(file.path, Verify::Auto));
  REQUIRE(::chown(file.path.c_str(), 0, 0) == 0);
  REQUIRE(::chown(file.folder.c_str(), 12345, 0) == 0);
  CHECK(is_copied(file.path, Verify::Auto));
}

TEST_CASE("the folder of the file counts, not that of a link to it") {
  const File open_to_all(0600, 0777), closed(0600, 0700);
  const std::string from_open = open_to_all.folder + "/link", from_closed = closed.folder + "/link";
  REQUIRE(::symlink(closed.path.c_str(), from_open.c_str()) == 0);
  REQUIRE(::symlink(open_to_all.path.c_str(), from_closed.c_str()) == 0);
  CHECK_FALSE(is_copied(from_open, Verify::Auto));
  CHECK(is_copied(from_closed, Verify::Auto));
  ::unlink(from_open.c_str());
  ::unlink(from_closed.c_str());
}

TEST_CASE("under a strict rule a file that can change is copied whatever is asked for") {
  const File file(0600, 0700);
  for (const Verify verify : {Verify::Auto, Verify::Lazy, Verify::Full, Verify::Copy}) CHECK(is_copied(file.path, verify, &strict()));
  // A binding policy does not lose its strictness by a policy beside it.
  signing::PolicyFile lax;
  lax.keys.push_back({.key = test_key().public_key(), .name = "test", .origin = signing::KeyOrigin::PolicyFile});
  lax.rules.push_back({.models = {"*"}, .level = signing::Level::Permissive});
  signing::PolicyFile binding = lax;
  binding.rules[0].level = signing::Level::Strict;
  binding.binding = true;
  const signing::TrustSet alone = signing::TrustSet::of({}, lax);
  CHECK_FALSE(is_copied(file.path, Verify::Lazy, &alone));
  const signing::TrustSet both = signing::TrustSet::of({}, lax, binding);
  CHECK(is_copied(file.path, Verify::Lazy, &both));
}

TEST_CASE("a file of memory is mapped if it is sealed against writing and shrinking, also under a strict rule") {
  const auto path = [](int fd) { return "/proc/self/fd/" + std::to_string(fd); };
  const int sealed = memory_file(F_SEAL_WRITE | F_SEAL_SHRINK), half = memory_file(F_SEAL_SHRINK | F_SEAL_GROW);
  CHECK_FALSE(is_copied(path(sealed), Verify::Auto));
  CHECK_FALSE(is_copied(path(sealed), Verify::Auto, &strict()));
  CHECK(is_copied(path(half), Verify::Auto));
  ::close(sealed);
  ::close(half);
}

TEST_CASE("memory of the caller is not copied, it was promised not to change") {
  const auto bytes = sample_bytes();
  std::vector<std::byte> room(bytes.size() + 512);
  std::byte* const at = room.data() + (256 - reinterpret_cast<uintptr_t>(room.data()) % 256);
  std::memcpy(at, bytes.data(), bytes.size());
  OpenOptions options = trusting(Verify::Auto);
  options.trust = &strict();
  auto opened = Container::open_memory({at, bytes.size()}, "x", options);
  REQUIRE(opened.ok());
  CHECK_FALSE((*opened)->copies());
  CHECK((*opened)->unchanged().ok());
}
