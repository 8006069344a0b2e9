// spec/container.md, section 14: a folder of parts is the container that they were cut from, wherever they were cut, and parts that lie are errors.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "runtime/container/source.h"
#include "schema/format.h"
#include "schema/parts.h"
#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;
namespace fs = std::filesystem;

namespace {

// A folder that only this user may write to.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/mlc-parts-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  std::string part(size_t k) const { return path + "/m.mlc" + format::part_ending(k); }
  void write(const std::string& file, Bytes bytes) const {
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(::chmod(file.c_str(), 0600) == 0);
  }
  void write_parts(Bytes bytes, const std::vector<uint64_t>& lengths) const {
    REQUIRE(std::accumulate(lengths.begin(), lengths.end(), uint64_t{0}) == bytes.size());
    for (size_t k = 0; k < lengths.size(); ++k) {
      write(part(k), bytes.first(lengths[k]));
      bytes = bytes.subspan(lengths[k]);
    }
  }
};

struct Sample {
  std::vector<std::byte> bytes = sample_bytes({.weights_len = 3u << 20});
  uint64_t begin = 0, length = 0;  // of the weights
  Digest root{};
  Sample() {
    auto opened = Container::open_memory(bytes, "x", trusting());
    REQUIRE(opened.ok());
    const uint32_t weights = *(*opened)->find_segment("weights");
    begin = (*opened)->segment_offset(weights);
    length = (*opened)->manifest().segments[weights].stored_len;
    root = (*opened)->root();
  }
  uint64_t tail() const { return bytes.size() - begin - length; }
  // Head, weights, tail, as `mlpack push --shape parts` cuts.
  std::vector<uint64_t> lengths() const { return {begin, length, tail()}; }
};

// The file that is mapped where `address` is, or what else is there.
std::string file_behind(const std::byte* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream in(line);
    in >> std::hex >> begin >> dash >> end;
    if (reinterpret_cast<uintptr_t>(address) < begin || reinterpret_cast<uintptr_t>(address) >= end) continue;
    const size_t at = line.find('/');
    return at == std::string::npos ? "memory" : line.substr(at);
  }
  return "nothing";
}

std::string behind_weights(const Container& c) {
  auto data = c.acquire(*c.find_segment("weights"), 0, 1);
  REQUIRE(data.ok());
  return file_behind(*data);
}

// The first failure of all that a container can be asked for, from opening on.
Status use_folder(const std::string& path, Verify verify = Verify::Lazy) {
  auto opened = Container::open(path, trusting(verify));
  if (!opened.ok()) return std::move(opened).status();
  if (Status status = use_everything(**opened); !status.ok()) return status;
  return (*opened)->unchanged();
}

void check_names(const std::string& path, const std::string& part) {
  for (const Verify verify : {Verify::Lazy, Verify::Copy, Verify::Full}) {
    const Status status = use_folder(path, verify);
    REQUIRE_FALSE(status.ok());
    CHECK_MESSAGE(status.text().find(part) != std::string::npos, status.text());
  }
}

}  // namespace

TEST_CASE("A folder of parts is the file that they were cut from, with its weights mapped") {
  const Sample sample;
  const Folder folder;
  folder.write_parts(sample.bytes, sample.lengths());
  folder.write(folder.path + "/README.md", sample.bytes);  // other files are not looked at
  folder.write(folder.path + "/other.mlc", sample.bytes);
  fs::create_directory(folder.path + "/below");
  for (const std::string& name : {folder.path, folder.path + "/"}) {
    for (const Verify verify : {Verify::Lazy, Verify::Auto, Verify::Full, Verify::Copy}) {
      auto opened = Container::open(name, trusting(verify));
      REQUIRE_MESSAGE(opened.ok(), opened.status().text());
      const Container& c = **opened;
      CHECK(c.root() == sample.root);
      CHECK(c.file_size() == sample.bytes.size());
      CHECK(c.native_allowed());
      CHECK(use_everything(c).ok());
      CHECK(c.unchanged().ok());
      CHECK(c.copies() == (verify == Verify::Copy));
      CHECK(behind_weights(c) == (verify == Verify::Copy ? "memory" : folder.part(1)));
    }
    auto file = AuthenticatedFile::open(name);
    REQUIRE(file.ok());
    CHECK(*file->file_digest() == sha256(sample.bytes));
    CHECK(file->name() == name);
  }
}

TEST_CASE("Weights that fill the last page of their part are mapped to their end") {
  Sample sample;
  uint64_t length = 0;
  for (size_t more = 0; more < 4096 / 256; ++more) {
    sample.bytes = sample_bytes({.weights_len = (1u << 20) + more * 256});
    auto opened = Container::open_memory(sample.bytes, "x", trusting());
    REQUIRE(opened.ok());
    const uint32_t weights = *(*opened)->find_segment("weights");
    length = (*opened)->manifest().segments[weights].stored_len;
    sample.begin = (*opened)->segment_offset(weights);
    if (length % 4096 == 0) break;
  }
  REQUIRE(length % 4096 == 0);
  const Folder folder;
  folder.write_parts(sample.bytes, {sample.begin, length, sample.bytes.size() - sample.begin - length});
  auto opened = Container::open(folder.path, trusting());
  REQUIRE(opened.ok());
  auto data = (*opened)->acquire(*(*opened)->find_segment("weights"), 0, length);
  REQUIRE(data.ok());
  CHECK(file_behind(*data + length - 1) == folder.part(1));
  CHECK(std::equal(*data, *data + length, sample.bytes.begin() + static_cast<ptrdiff_t>(sample.begin)));
}

TEST_CASE("Parts may be cut anywhere; weights that lie in several, or at no multiple of 256, are copied") {
  const Sample sample;
  const uint64_t size = sample.bytes.size(), begin = sample.begin;
  struct Case {
    std::vector<uint64_t> lengths;
    bool is_mapped;
  };
  std::vector<Case> cases = {{{size}, true},
                             {{1, size - 1}, false},
                             {{256, size - 256}, true},
                             {{begin - 1, 1, size - begin}, true},
                             {{begin + 1, size - begin - 1}, false},
                             {{begin, sample.length - 1, sample.tail() + 1}, false},
                             {{size - 1, 1}, true},
                             {{10, 20, 34, 4000, begin - 4064, size - begin - 7, 3, 4}, true}};
  std::vector<uint64_t> most(format::kMaxParts, size / format::kMaxParts);
  most.back() += size % format::kMaxParts;
  cases.push_back({most, false});
  for (const Case& c : cases) {
    CAPTURE(c.lengths.size());
    CAPTURE(c.lengths[0]);
    const Folder folder;
    folder.write_parts(sample.bytes, c.lengths);
    for (const Verify verify : {Verify::Lazy, Verify::Full, Verify::Copy}) {
      const Status status = use_folder(folder.path, verify);
      CHECK_MESSAGE(status.ok(), status.text());
    }
    auto opened = Container::open(folder.path, trusting());
    REQUIRE(opened.ok());
    CHECK((behind_weights(**opened) != "memory") == c.is_mapped);
  }
}

TEST_CASE("Each range of bytes comes from the parts that have it") {
  const auto bytes = noise(23, 1);
  const std::vector<size_t> lengths = {3, 1, 7, 1, 1, 10};
  std::vector<std::unique_ptr<Source>> parts;
  size_t at = 0;
  for (const size_t n : lengths) parts.push_back(memory_source(Bytes(bytes).subspan(std::exchange(at, at + n), n), "part " + std::to_string(parts.size())));
  auto joined = join_parts(std::move(parts), "joined");
  REQUIRE(joined.ok());
  const Source& source = **joined;
  CHECK(source.size() == bytes.size());
  for (size_t begin = 0; begin <= bytes.size(); ++begin)
    for (size_t n = 0; n <= bytes.size() + 1; ++n) {
      std::vector<std::byte> out(n);
      const Status status = source.read(begin, out);
      REQUIRE(status.ok() == (begin + n <= bytes.size()));
      if (status.ok()) REQUIRE(std::equal(out.begin(), out.end(), bytes.begin() + static_cast<ptrdiff_t>(begin)));
    }
  std::byte one{};
  CHECK_FALSE(source.read(UINT64_MAX, {&one, 1}).ok());
  CHECK(source.file_at(0) == "part 0");
  CHECK(source.file_at(3) == "part 1");
  CHECK(source.file_at(22) == "part 5");
  CHECK(source.file_at(23) == "part 5");
}

TEST_CASE("Names are those of one container, without gaps, at most 200") {
  const auto found = [](const std::vector<std::string>& names) {
    const Folder folder;
    for (const std::string& name : names) folder.write(folder.path + "/" + name, noise(1, 1));
    auto opened = open_file(folder.path);
    return opened.ok() ? std::to_string((*opened)->size()) + " bytes" : opened.status().text();
  };
  const auto says = [&](const std::vector<std::string>& names, const std::string& words) {
    const std::string text = found(names);
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  };
  for (const char* name : {"m.mlc.000", "a b.mlc.000", "m.mlc.007.mlc.000"}) says({name}, "1 bytes");
  for (const char* name : {".mlc.000", ".m.mlc.000", "m.mlc", "m.mlc.00", "m.mlc.0000", "m.mlc.00a", "m.mlc.-01", "m.mlc 000", "m.mlc.000~", "m.bin.000", ".000", "m.MLC.000"}) {
    says({name}, "is a folder without parts of a container");
    says({name, "x.mlc.001", "x.mlc.000"}, "2 bytes");
  }
  says({}, "is a folder without parts of a container");
  says({"m.mlc.001"}, "/m.mlc.000: No such file");
  says({"m.mlc.999"}, "/m.mlc.000: No such file");
  says({"m.mlc.000", "m.mlc.002", "m.mlc.003"}, "/m.mlc.001: No such file");
  says({"m.mlc.000", "n.mlc.000"}, "has parts of two containers, ");
  says({"m.mlc.000", "m.mlc.001", "n.mlc.001"}, "has parts of two containers, ");
  std::vector<std::string> names;
  for (size_t k = 0; k < format::kMaxParts; ++k) names.push_back("m.mlc" + format::part_ending(k));
  says(names, "200 bytes");
  names.push_back("m.mlc.200");
  says(names, "has more than 200 parts");
}

TEST_CASE("Parts that lie are errors that name them") {
  const Sample sample;
  const Bytes bytes = sample.bytes;
  const Bytes weights = bytes.subspan(sample.begin, sample.length);
  const uint64_t half = 1u << 20;
  const auto fresh = [&](const Folder& folder) { folder.write_parts(bytes, {sample.begin, half, sample.length - half, sample.tail()}); };
  const auto refused = [&](const std::string& named, const std::function<void(const Folder&)>& change) {
    const Folder folder;
    fresh(folder);
    REQUIRE(use_folder(folder.path).ok());
    change(folder);
    check_names(folder.path, named);
  };
  for (size_t k = 0; k < 3; ++k) refused("m.mlc" + format::part_ending(k), [&](const Folder& f) { fs::remove(f.part(k)); });
  refused("m.mlc.002", [](const Folder& f) { fs::remove(f.part(3)); });  // the last one that is there
  for (size_t k = 0; k < 4; ++k) {
    const std::string name = "m.mlc" + format::part_ending(k);
    refused(name + " has 0 bytes", [&](const Folder& f) { fs::resize_file(f.part(k), 0); });
    refused(name + ": a symbolic link", [&](const Folder& f) {
      fs::rename(f.part(k), f.path + "/elsewhere");
      fs::create_symlink("elsewhere", f.part(k));
    });
    refused(name + " is a folder", [&](const Folder& f) {
      fs::remove(f.part(k));
      fs::create_directory(f.part(k));
    });
    refused(name + " is a pipe", [&](const Folder& f) {
      fs::remove(f.part(k));
      REQUIRE(::mkfifo(f.part(k).c_str(), 0600) == 0);
    });
  }
  refused("/m.mlc.002", [&](const Folder& f) {  // one bit
    auto changed = std::vector<std::byte>(weights.begin() + static_cast<ptrdiff_t>(half), weights.end());
    changed[half + 5] ^= std::byte{1};
    f.write(f.part(2), changed);
  });
  refused("/m.mlc.00", [](const Folder& f) {  // swapped
    fs::rename(f.part(1), f.path + "/x");
    fs::rename(f.part(2), f.part(1));
    fs::rename(f.path + "/x", f.part(2));
  });
}

TEST_CASE("Parts that are longer, or moved against each other, never look like the file") {
  const Sample sample;
  for (size_t k = 0; k < 3; ++k)
    for (const int64_t by : {1, -1, 64, -64, 65536, -65536}) {
      if (by < 0 && sample.lengths()[k] < 65536) continue;
      const Folder folder;
      folder.write_parts(sample.bytes, sample.lengths());
      fs::resize_file(folder.part(k), sample.lengths()[k] + static_cast<uint64_t>(by));
      CHECK_FALSE(use_folder(folder.path).ok());
      if (k != 1) continue;
      // What is missing or too much there is made up for behind it, so that sizes are right.
      const size_t other = 2;
      std::ifstream in(folder.part(other), std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(in)), {});
      if (by > 0 && text.size() <= static_cast<size_t>(by)) continue;
      const std::string moved = by > 0 ? text.substr(static_cast<size_t>(by)) : std::string(static_cast<size_t>(-by), '\0') + text;
      folder.write(folder.part(other), std::as_bytes(std::span(moved)));
      const Status status = use_folder(folder.path);
      // Zeros that come from another part than before are the same bytes: the cut is elsewhere, nothing else.
      std::vector<std::byte> joined;
      for (size_t p = 0; p < 3; ++p) {
        std::ifstream part(folder.part(p), std::ios::binary);
        const std::string content((std::istreambuf_iterator<char>(part)), {});
        const auto span = std::as_bytes(std::span(content));
        joined.insert(joined.end(), span.begin(), span.end());
      }
      CHECK(status.ok() == (joined == sample.bytes));
    }
}

TEST_CASE("A part that changes while it is open is E6001 with its name; one that is renamed over is not read") {
  const Sample sample;
  const Folder folder;
  folder.write_parts(sample.bytes, sample.lengths());
  auto opened = Container::open(folder.path, trusting());
  REQUIRE(opened.ok());
  const Container& c = **opened;
  folder.write(folder.path + "/new", noise(100, 3));
  fs::rename(folder.path + "/new", folder.part(1));
  CHECK(c.unchanged().ok());
  CHECK(use_everything(c).ok());
  fs::resize_file(folder.part(2), sample.tail() - 1);
  const Status changed = c.unchanged();
  REQUIRE(changed.number == 6001);
  CHECK_MESSAGE(changed.message == folder.part(2) + " was changed while it was in use", changed.message);

  // What is read of a part that became shorter is not made up.
  auto source = open_file(folder.path);
  REQUIRE(source.ok());
  fs::resize_file(folder.part(0), 10);
  std::vector<std::byte> out(20);
  const Status cut = (*source)->read(0, out);
  CHECK(cut.number == 6001);
  CHECK_MESSAGE(cut.message.find("m.mlc.000 became shorter") != std::string::npos, cut.message);
}

TEST_CASE("Weights are copied where others may write to one of the parts") {
  const Sample sample;
  for (size_t k = 0; k < 3; ++k) {
    const Folder folder;
    folder.write_parts(sample.bytes, sample.lengths());
    auto before = Container::open(folder.path, trusting(Verify::Auto));
    REQUIRE(before.ok());
    CHECK_FALSE((*before)->copies());
    REQUIRE(::chmod(folder.part(k).c_str(), 0666) == 0);
    auto opened = Container::open(folder.path, trusting(Verify::Auto));
    REQUIRE(opened.ok());
    CHECK((*opened)->copies());
  }
}

TEST_CASE("A part that ends as a program with a container behind it is a part all the same") {
  const Sample sample;
  const Folder folder;
  folder.write_parts(sample.bytes, sample.lengths());
  // Without its head the second part's bytes begin as no container, and could end in a trailer.
  std::string tail = "MLCEXEC1";
  tail.resize(24, '\1');
  auto weights = std::vector<std::byte>(sample.bytes.begin() + static_cast<ptrdiff_t>(sample.begin), sample.bytes.begin() + static_cast<ptrdiff_t>(sample.begin + sample.length));
  std::ranges::copy(std::as_bytes(std::span(tail)), weights.end() - 24);
  folder.write(folder.part(1), weights);
  auto source = open_file(folder.path);
  REQUIRE_MESSAGE(source.ok(), source.status().text());
  CHECK((*source)->size() == sample.bytes.size());
  CHECK_FALSE(use_folder(folder.path).ok());
}
