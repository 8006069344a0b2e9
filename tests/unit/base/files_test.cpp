// What may be read of a folder that somebody else has filled.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/files/links.h"
#include "base/files/regular_file.h"

using namespace mlc;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/mlc-files-XXXXXX";
    path = fs::canonical(mkdtemp(name));
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& text = "text") const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
  fs::path path;
};

}  // namespace

TEST_CASE("a place is inside of a folder whichever way links lead there, or it is refused") {
  const Folder folder;
  folder.file("model/data/a");
  folder.file("model2/b");
  folder.file("secret");
  const fs::path model = folder.path / "model";
  fs::create_symlink("data/a", model / "in");
  fs::create_symlink("../secret", model / "out");
  fs::create_symlink("..", model / "up");
  fs::create_symlink("../model/data/a", model / "around");
  fs::create_symlink("loop", model / "loop");
  const std::string a = (model / "data/a").string();
  for (const char* good : {"data/a", "./data//a", "data/../data/a", "in", "around"}) {
    const auto place = place_inside(model.string(), good);
    CHECK_MESSAGE((place.ok() && *place == a), good);
  }
  for (const std::string& bad : {std::string(), std::string("/etc/passwd"), a, std::string("../secret"), std::string("../model2/b"), std::string("data/../../secret"),
                                 std::string("out"), std::string("up/secret"), std::string("../model/data/a"), std::string("in\0x", 4)}) {
    const auto place = place_inside(model.string(), bad);
    CHECK_MESSAGE((!place.ok() && place.status().code == Code::Malformed), bad);
  }
  for (const char* missing : {"none", "loop", "data/none"}) {
    const auto place = place_inside(model.string(), missing);
    CHECK_MESSAGE((!place.ok() && place.status().code == Code::NotFound), missing);
  }
}

TEST_CASE("only regular files are read, and none that is longer than is expected") {
  const Folder folder;
  const auto text = read_regular_file(folder.file("four"), 4);
  CHECK((text.ok() && *text == "text"));
  CHECK((read_regular_file(folder.file("none", ""), 0).ok()));
  const auto longer = read_regular_file(folder.file("four"), 3, Code::Usage);
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.status().code == Code::Usage);
  CHECK(longer.status().message.find("4 bytes, at most 3") != std::string::npos);
  // A terabyte without a block on the disk: had it been read, this would not end.
  const std::string sparse = folder.file("sparse");
  REQUIRE(truncate(sparse.c_str(), off_t{1} << 40) == 0);
  CHECK(read_regular_file(sparse, 4 << 20).status().code == Code::Malformed);
  const std::string fifo = (folder.path / "fifo").string();
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string& other : {fifo, folder.path.string(), std::string("/dev/zero"), (folder.path / "missing").string()})
    CHECK_MESSAGE(read_regular_file(other, 4).status().code == Code::NotFound, other);
}
