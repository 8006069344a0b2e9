// Who may change what decides about trust. Needs root for the files of other users and for what a user without rights
// cannot read; otherwise those cases are left out, and say so.
#include "signing/files/owned_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "signing/policy.h"
#include "signing/user_key.h"
#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

constexpr uid_t kOwner = 12345, kOther = 12346;
constexpr std::string_view kStrict = R"({"rules":[{"models":["*"],"level":"strict"}]})";

bool is_root() {
  if (::geteuid() == 0) return true;
  MESSAGE("left out: needs root");
  return false;
}

// What `load` answers for that user: its E-number, 0 if it is OK, 9999 if it is OK and `expected` does not hold.
unsigned as_user(uid_t user, const std::function<unsigned()>& load) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned answer = 70;
    if (::setgid(user) == 0 && ::setuid(user) == 0) answer = load();
    const bool written = ::write(ends[1], &answer, sizeof answer) == sizeof answer;
    ::_exit(written ? 0 : 1);
  }
  unsigned answer = 71;
  ::close(ends[1]);
  CHECK(::read(ends[0], &answer, sizeof answer) == sizeof answer);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return answer;
}

// A home with a policy, a key, and a trust set that holds both; all of it belongs to kOwner.
struct Home : TempFolder {
  std::string config = *this / ".config/mlc";
  PrivateKey key = make_key();
  Home() {
    std::filesystem::create_directories(config + "/trust");
    write_file(config + "/trust.json", kStrict);
    write_file(config + "/trust/k.pem", key.public_key().pem());
    for (const char* folder : {"", "/.config", "/.config/mlc", "/.config/mlc/trust"}) mode(path() + folder, 0755);
    for (const char* file : {"/trust.json", "/trust/k.pem"}) mode(config + file, 0644);
  }
  void mode(const std::string& path, mode_t mode) const { REQUIRE(::chmod(path.c_str(), mode) == 0); }
  void give_away(uid_t user) const {
    REQUIRE(::chown(path().c_str(), user, user) == 0);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
      REQUIRE(::lchown(entry.path().c_str(), user, user) == 0);
  }
  Status load() const {
    auto trust = TrustSet::load({.config_folder = config, .system_policy = ""});
    return trust.ok() ? ok() : trust.status();
  }
  // 0 if the policy and the key are there.
  unsigned answer() const {
    const auto trust = TrustSet::load({.config_folder = config, .system_policy = ""});
    if (!trust.ok()) return trust.status().number;
    return trust->has_policy() && trust->keys().size() == 1 ? 0 : 9999;
  }
};

}  // namespace

TEST_CASE("a policy and a key that nobody else can change are believed") {
  Home home;
  CHECK(home.answer() == 0);
  // Through links, as volumes of containers have them.
  std::filesystem::rename(home.config, home / "real");
  std::filesystem::create_symlink("../real", home.config);
  CHECK(home.answer() == 0);
}

TEST_CASE("what others may change is an error that says what to type, not a missing policy") {
  struct Case {
    const char* place;
    mode_t mode;
    bool trust_only;
  };
  for (const Case& c : {Case{"/.config", 0777, false}, {"/.config", 0775, false}, {"/.config/mlc", 0770, false},
                        {"/.config/mlc/trust.json", 0664, false}, {"/.config/mlc/trust.json", 0666, false},
                        {"/.config/mlc/trust", 0720, false}, {"/.config/mlc/trust/k.pem", 0666, false}}) {
    Home home;
    CAPTURE(c.place);
    home.mode(home.path() + c.place, c.mode);
    const Status status = home.load();
    CHECK(status.code == Code::Untrusted);
    CHECK(status.number == 3304);
    CHECK(status.help == "chmod go-w " + home.path() + c.place);
  }
  // Nobody can replace in a sticky folder what belongs to another user.
  Home home;
  home.mode(home / ".config", 01777);
  CHECK(home.answer() == 0);
}

TEST_CASE("where nothing is, nobody asks who may write") {
  Home home;
  std::filesystem::remove_all(home.config);
  home.mode(home / ".config", 0777);
  const auto trust = TrustSet::load({.config_folder = home.config, .system_policy = home / "none/trust.json"});
  REQUIRE(trust.ok());
  CHECK_FALSE(trust->has_policy());
  write_file(home / ".config/mlc", "a file where the folder would be");  // ENOTDIR
  CHECK(TrustSet::load({.config_folder = home.config, .system_policy = ""}).ok());
}

TEST_CASE("a link that leads nowhere, a folder, a FIFO and an endless link are errors") {
  for (const char* name : {"/trust.json", "/trust/k.pem", "/trust"}) {
    Home home;
    CAPTURE(name);
    std::filesystem::remove_all(home.config + name);
    std::filesystem::create_symlink("/nonexistent/x", home.config + name);
    CHECK(home.load().number == 3305);
    std::filesystem::remove(home.config + name);
    std::filesystem::create_symlink(home.config + name, home.config + name);
    CHECK(home.load().number == 3305);
    std::filesystem::remove(home.config + name);
    REQUIRE(::mkfifo((home.config + name).c_str(), 0600) == 0);
    CHECK(home.load().number == 3305);
  }
  Home home;
  std::filesystem::remove(home.config + "/trust.json");
  std::filesystem::create_directory(home.config + "/trust.json");
  CHECK(home.load().number == 3305);
}

TEST_CASE("what is there and cannot be read is an error, never a missing policy") {
  if (!is_root()) return;
  struct Case {
    const char* place;
    mode_t mode;
    const char* help;
  };
  for (const Case& c : {Case{"/.config/mlc/trust.json", 0000, "u+r"}, {"/.config/mlc", 0600, "u+x"}, {"/.config", 0600, "u+x"},
                        {"/.config/mlc/trust", 0000, "u+r"}, {"/.config/mlc/trust/k.pem", 0000, "u+r"}}) {
    Home home;
    CAPTURE(c.place);
    home.give_away(kOwner);
    CHECK(as_user(kOwner, [&] { return home.answer(); }) == 0);
    home.mode(home.path() + c.place, c.mode);
    CHECK(as_user(kOwner, [&] { return home.answer(); }) == 3305);
    const std::string help = std::string("chmod ") + c.help + " " + home.path() + c.place;
    CHECK(as_user(kOwner, [&] { return home.load().help == help ? 0u : 1u; }) == 0);
  }
}

TEST_CASE("a system policy in a folder that only root may search is an error for everybody else") {
  if (!is_root()) return;
  Home home;
  std::filesystem::create_directory(home / "etc");
  write_file(home / "etc/trust.json", kStrict);
  const auto load = [&] {
    const auto trust = TrustSet::load({.system_policy = home / "etc/trust.json"});
    return trust.ok() ? (trust->has_policy() ? 0u : 9999u) : trust.status().number;
  };
  CHECK(as_user(kOther, load) == 0);
  home.mode(home / "etc", 0700);
  CHECK(as_user(kOther, load) == 3305);
  CHECK(load() == 0);
}

TEST_CASE("files, folders and links of other users are refused, by root too") {
  if (!is_root()) return;
  Home home;
  home.give_away(kOwner);
  CHECK(as_user(kOwner, [&] { return home.answer(); }) == 0);
  CHECK(as_user(kOther, [&] { return home.answer(); }) == 3304);
  const Status root = home.load();  // root with another user's HOME
  CHECK(root.number == 3304);
  CHECK(root.help.find("chown root ") == 0);

  Home mixed;
  mixed.give_away(kOwner);
  const std::string stray = mixed / "stray.pem";
  std::filesystem::copy(mixed.config + "/trust/k.pem", stray);
  REQUIRE(::chown(stray.c_str(), kOther, kOther) == 0);
  std::filesystem::remove(mixed.config + "/trust/k.pem");
  std::filesystem::create_symlink(stray, mixed.config + "/trust/k.pem");
  REQUIRE(::lchown((mixed.config + "/trust/k.pem").c_str(), kOwner, kOwner) == 0);
  CHECK(as_user(kOwner, [&] { return mixed.answer(); }) == 3304);
  REQUIRE(::chown(stray.c_str(), 0, 0) == 0);  // what root left there is believed
  CHECK(as_user(kOwner, [&] { return mixed.answer(); }) == 0);

  // The link is the user's, the folder that it leads through is not.
  Home through;
  std::filesystem::create_directory(through / "other");
  std::filesystem::rename(through.config + "/trust.json", through / "other/trust.json");
  std::filesystem::create_symlink(through / "other/trust.json", through.config + "/trust.json");
  through.give_away(kOwner);
  REQUIRE(::chown((through / "other").c_str(), kOther, kOther) == 0);
  CHECK(as_user(kOwner, [&] { return through.answer(); }) == 3304);
}

TEST_CASE("keys are neither made nor added where others may write, nor by root in another user's home") {
  Home home;
  home.mode(home.config, 0775);
  CHECK(user_key(home.config).status().number == 3304);
  CHECK(add_trusted_key(home.config, home.key.public_key(), {}).status().number == 3304);
  CHECK_FALSE(std::filesystem::exists(home.config + "/key.pem"));
  if (!is_root()) return;
  Home foreign;
  std::filesystem::remove_all(foreign / ".config");
  foreign.give_away(kOwner);
  CHECK(user_key(foreign.config).status().number == 3304);
  CHECK_FALSE(std::filesystem::exists(foreign / ".config"));
  CHECK(as_user(kOwner, [&] { return user_key(foreign.config).ok() ? 0u : 1u; }) == 0);
  CHECK(as_user(kOwner, [&] { return OwnedFolder::make("relative/folder").ok() ? 0u : 1u; }) != 70);
}
