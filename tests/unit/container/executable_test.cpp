// spec/container.md, section 13: a container behind a program. Its trailer from all sides, and the reader of files with one.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/byte_cursor.h"
#include "runtime/container/source.h"
#include "schema/executable.h"
#include "schema/format.h"
#include "tests/support/containers/sample_container.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::format;
using namespace mlc::test;

namespace {

constexpr uint64_t kBegin = 65'536;  // behind a runner of 1 to 65,536 bytes

struct ExecutableFile {
  std::string path = (std::filesystem::temp_directory_path() / ("mlc_executable_" + std::to_string(::getpid()))).string();
  explicit ExecutableFile(Bytes bytes) { std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())); }
  ~ExecutableFile() { std::filesystem::remove(path); }
};

void append(std::vector<std::byte>& to, Bytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

std::vector<std::byte> executable_of(Bytes content, std::string_view runner = "\x7f" "ELF, in front") {
  std::vector<std::byte> out = bytes_of(runner);
  out.resize(kBegin);
  append(out, content);
  append(out, trailer_of({kBegin, content.size()}));
  return out;
}

bool is_found(const ContainerPart& said, uint64_t file_bytes) {
  ContainerPart part;
  const Status status = find_part(trailer_of(said), file_bytes, "file", part);
  if (status.ok()) {
    CHECK(part.offset == said.offset);
    CHECK(part.length == said.length);
  } else {
    CHECK(status.number == 1102);
    CHECK(status.code == Code::Malformed);
  }
  return status.ok();
}

}  // namespace

TEST_CASE("A trailer is found where its numbers fit the file, and with any other numbers refused") {
  const uint64_t length = 10'000, size = kBegin + length + kTrailerLen;
  CHECK(is_found({kBegin, length}, size));
  CHECK(is_found({kBegin, kHeaderLen}, kBegin + kHeaderLen + kTrailerLen));
  CHECK_FALSE(is_found({kBegin, kHeaderLen - 1}, kBegin + kHeaderLen - 1 + kTrailerLen));
  CHECK_FALSE(is_found({0, kBegin + length}, size));
  // One number of each kind that arithmetic could stumble over, against each other.
  std::vector<uint64_t> numbers = {0, 1, kTrailerLen, 4095, 4096, length - 1, length + 1, kBegin - 1, kBegin, kBegin + 1, 2 * kBegin, size, size - 1, UINT64_MAX, UINT64_MAX - kBegin, UINT64_MAX - kBegin + 1};
  for (int bit = 0; bit < 64; ++bit) numbers.push_back(uint64_t{1} << bit);
  for (const uint64_t offset : numbers)
    for (const uint64_t said : numbers)
      for (const uint64_t bytes : {size, kTrailerLen, kTrailerLen + 1, kBegin, UINT64_MAX})
        CHECK(is_found({offset, said}, bytes) == (offset != 0 && offset % kBegin == 0 && said >= kHeaderLen && offset <= bytes - kTrailerLen && said == bytes - kTrailerLen - offset));
}

TEST_CASE("Every bit of a trailer counts") {
  const uint64_t length = 10'000, size = kBegin + length + kTrailerLen;
  const auto good = trailer_of({kBegin, length});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto changed = good;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    ContainerPart part{1, 2};
    const Status status = find_part(changed, size, "file", part);
    CHECK(status.ok() == (bit < 64));  // another magic: no trailer
    if (status.ok()) CHECK(part.length == 2);
  }
}

TEST_CASE("The page has the bytes of the example's trailer") {
  std::ifstream in(mlc::testing::source_path("spec/container.md"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  std::string hex;
  for (const std::byte b : trailer_of({0x930000, 324'712})) {
    char text[4];
    std::snprintf(text, sizeof text, "%02x ", std::to_integer<unsigned>(b));
    hex += text;
  }
  hex.pop_back();
  CHECK_MESSAGE(page.find(hex) != page.npos, hex);
}

TEST_CASE("The end of an ELF file is where its table of sections ends") {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  const std::vector<std::byte> own = bytes_of(all.str());
  CHECK(elf_end(own) == own.size());
  CHECK(elf_end(Bytes(own).first(64)) == own.size());
  CHECK_FALSE(elf_end(Bytes(own).first(63)));
  CHECK_FALSE(elf_end(std::vector<std::byte>(64)));
  auto lying = own;
  std::fill_n(lying.begin() + 0x28, 8, std::byte{0xff});  // a table at the last byte of all
  CHECK_FALSE(elf_end(lying));
  CHECK(offset_behind(1) == kBegin);
  CHECK(offset_behind(kBegin) == kBegin);
  CHECK(offset_behind(kBegin + 1) == 2 * kBegin);
  CHECK_FALSE(offset_behind(UINT64_MAX));
}

TEST_CASE("A container in an executable is read in place, as the file that it was") {
  const auto content = sample_bytes({.weights_len = 3u << 20});
  ExecutableFile file(executable_of(content));
  for (const Verify verify : {Verify::Lazy, Verify::Full, Verify::Copy}) {
    auto opened = Container::open(file.path, trusting(verify));
    REQUIRE_MESSAGE(opened.ok(), opened.status().message);
    const Container& c = **opened;
    CHECK(c.file_size() == content.size());
    CHECK(c.native_allowed());
    CHECK(c.verify_all().ok());
    const uint32_t weights = *c.find_segment("weights");
    auto found = c.acquire(weights, 0, 3u << 20);
    REQUIRE(found.ok());
    CHECK(std::equal(*found, *found + (3u << 20), content.begin() + static_cast<ptrdiff_t>(c.segment_offset(weights))));
    if (verify == Verify::Copy) continue;
    // No copy: the address is one of a mapping of the file, at its place in it.
    std::ifstream maps("/proc/self/maps");
    bool is_mapped = false;
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0, offset = 0;
      if (!line.ends_with(file.path) || std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) != 3) continue;
      const auto at = reinterpret_cast<uintptr_t>(*found);
      is_mapped = is_mapped || (at >= begin && at < end && at - begin + offset == kBegin + c.segment_offset(weights));
    }
    CHECK(is_mapped);
  }
}

TEST_CASE("An executable whose bytes are changed or cut off is refused") {
  const auto content = sample_bytes();
  const auto good = executable_of(content);
  const auto opened = [](Bytes bytes) {
    ExecutableFile file(bytes);
    auto open = Container::open(file.path, trusting(Verify::Full));
    if (open.ok()) return (*open)->verify_all();
    return open.status();
  };
  CHECK(opened(good).ok());
  for (size_t at = kBegin; at < good.size(); at += at < good.size() - 200 ? 97 : 1) {
    auto changed = good;
    changed[at] ^= std::byte{0x10};
    CHECK_MESSAGE(!opened(changed).ok(), at);
  }
  for (size_t length = kBegin - 1; length < good.size(); length += 1009) CHECK_MESSAGE(!opened(Bytes(good).first(length)).ok(), length);
  CHECK(opened(Bytes(good).first(good.size() - 1)).message.find("is an ELF executable") != std::string::npos);
  // A container that ends with what looks like a trailer is read from its beginning on.
  auto both = sample_bytes();
  both.resize((both.size() + kBegin - 1) / kBegin * kBegin);
  const uint64_t begin = both.size();
  append(both, content);
  append(both, trailer_of({begin, content.size()}));
  CHECK_FALSE(opened(both).ok());
}
