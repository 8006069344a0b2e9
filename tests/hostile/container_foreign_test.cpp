// libs: mlc_container_reader mlc_container_writer
// Files that are something else are named as what they are; things that are no files at all are not waited for.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "schema/placement.h"
#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

Status open_text(std::string_view content) {
  auto bytes = bytes_of(content);
  auto opened = Container::open_memory(bytes, "file", trusting());
  return opened.ok() ? ok() : opened.status();
}

}  // namespace

TEST_CASE("A foreign file is named") {
  struct Foreign {
    std::string_view content;
    const char* expected;
  };
  using std::string_view_literals::operator""sv;
  const std::string tar = std::string(257, 'a') + "ustar" + std::string(300, '\0');
  for (const Foreign& f : {Foreign{"", "is empty"},
                           {"PK\x03\x04zzzzzzzz", "a ZIP archive"},
                           {"\x7f"
                            "ELF\x02\x01\x01",
                            "an ELF executable"},
                           {"MZ\x90", "a Windows executable"},
                           {"GGUF\x03\0\0\0"sv, "a GGUF model"},
                           {"\x1f\x8b\x08", "a gzip file"},
                           {"\x28\xb5\x2f\xfd\x24", "a zstd file"},
                           {"<!DOCTYPE html><html>", "a web page"},
                           {"\n <HTML>", "a web page"},
                           {"\x08\x08\x12\x07pytorch", "an ONNX model"},
                           {"{\"a\": 1}", "a JSON text"},
                           {"\x10\0\0\0\0\0\0\0{\"a\":{}}      "sv, "a safetensors file"},
                           {"\x89PNG\r\n\x1a\n....", "a PNG image"},
                           {"\x1c\0\0\0TFL3"sv, "a TensorFlow Lite model"},
                           {"\x93NUMPY\x01", "a NumPy array"},
                           {tar, "a tar archive"},
                           {"-----BEGIN PUBLIC KEY-----", "a PEM file"},
                           {"random text", "first bytes are unknown"},
                           {"\x89MLC\n\x1a\n and more", "damaged by a transfer in text mode"},
                           {"\x89MLC\r\n\x1a\n", "is truncated"},
                           {"\x89ML", "is truncated"}}) {
    Status status = open_text(f.content);
    CHECK(status.code == Code::Malformed);
    CHECK_MESSAGE(status.text().find(f.expected) != std::string::npos, status.text());
  }
}

TEST_CASE("What a model takes says that it is an input, of the tool's and of a program's alike") {
  for (const char* input : {"\x89PNG\r\n\x1a\n....", "\xff\xd8\xff\xe0", "\x93NUMPY\x01"})
    CHECK(open_text(input).help.find("open a container, and give it this file as an input") == 0);
}

TEST_CASE("A git-lfs pointer says what it stands for and how to get it") {
  Status status = open_text(
      "version https://git-lfs.github.com/spec/v1\noid "
      "sha256:90aa0011223344556677889900aabbccddeeff00112233445566778899aabbcc\nsize 102442450\n");
  CHECK(status.number == 1001);
  CHECK(status.text().find("stands for 102442450 bytes, sha256 90aa0011") != std::string::npos);
  CHECK(status.help.find("git lfs pull") == 0);
}

TEST_CASE("Folders, pipes, devices and missing files are refused without waiting") {
  const auto folder = std::filesystem::temp_directory_path() / ("mlc_foreign_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  struct Place {
    std::string path;
    const char* expected;
  };
  for (const Place& p : {Place{folder.string(), "a folder"},
                         {pipe, "a pipe"},
                         {"/dev/zero", "a device"},
                         {(folder / "none").string(), "cannot open"}}) {
    auto opened = Container::open(p.path, trusting());
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.status().code == Code::NotFound);
    CHECK_MESSAGE(opened.status().message.find(p.expected) != std::string::npos, opened.status().message);
  }
  CHECK_FALSE(Container::open("/proc/self/status", trusting()).ok());  // regular, of size 0
  std::filesystem::remove_all(folder);
}

TEST_CASE("A sparse container of 96 GiB opens, gives out weights, and still finds a damaged leaf") {
  // Eight segments of 12 GiB of zeros beside the sample's: only headers, leaf tables and what is asked for are read.
  static const std::vector<std::byte> good = sample_bytes();
  Parts parts = take_apart(good);
  const std::vector<std::byte> zeros(format::kLeafLen);
  const uint64_t len = uint64_t{12} << 30, leaves = len / format::kLeafLen;
  const std::vector<Digest> digests(leaves, leaf_digest(zeros));
  const Digest segment = segment_digest(1, len, len, digests);
  format::Manifest& m = parts.manifest;
  for (int i = 0; i < 8; ++i) {
    format::Segment s;
    s.name = "zeros" + std::to_string(i);
    s.kind = format::SegmentKind::Weights;
    s.stored_len = s.decoded_len = len;
    s.digest = segment;
    format::Tensor t;
    t.name = "zeros" + std::to_string(i);
    t.dtype = DType::F32;
    t.shape = {len / 4};
    t.copies = {{0, {static_cast<uint32_t>(m.segments.size()), 0, len}}};
    m.segments.push_back(s);
    m.tensors.push_back(t);
  }
  // The body by hand: a sparse file with the front, the small segments and the leaf tables.
  auto manifest = encode_manifest(m);
  auto core = make_core(manifest.size(), static_cast<uint32_t>(m.segments.size()));
  for (size_t i = 0; i < 8; ++i) parts.shapes.push_back({format::Codec::Raw, len, len, true});
  auto placement = format::place(manifest.size(), parts.shapes);
  REQUIRE(placement);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("mlc_sparse_" + std::to_string(::getpid()) + ".mlc")).string();
  int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
  REQUIRE(fd >= 0);
  auto put = [&](uint64_t offset, const void* data, size_t size) {
    REQUIRE(::pwrite(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size));
  };
  if (::ftruncate(fd, static_cast<off_t>(placement->body_size)) != 0) {
    MESSAGE("skipped: the file system cannot hold a sparse file of that size");
  } else {
    const uint64_t fields[] = {placement->body_size, placement->placement_off, placement->manifest_off,
                               placement->leaves_off, placement->leaves_len};
    put(0, core.data(), core.size());
    put(64, fields, sizeof fields);
    put(placement->manifest_off, manifest.data(), manifest.size());
    for (size_t i = 0; i < placement->segments.size(); ++i) {
      const auto& item = placement->segments[i];
      put(4096 + 8 * i, &item.offset, 8);
      if (i < parts.stored.size()) {
        put(item.offset, parts.stored[i].data(), parts.stored[i].size());
        put(item.table_off, parts.tables[i].data(), parts.tables[i].size());
      } else {
        put(item.table_off, digests.data(), digests.size() * 32);
      }
    }
    const char one = 1;
    put(placement->segments.back().offset + (uint64_t{5} << 30), &one, 1);
    auto opened = Container::open(path, trusting());
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
    const Container& c = **opened;
    const uint32_t last = static_cast<uint32_t>(m.segments.size() - 1);
    auto pointer = c.acquire(last, (uint64_t{4} << 30) + 12345, 2 << 20);
    REQUIRE(pointer.ok());
    CHECK(**pointer == std::byte{0});
    auto bad = c.acquire(last, uint64_t{5} << 30, 1);
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.status().message.find("segment \"zeros7\": leaf 5120 of 12288") != std::string::npos);
  }
  ::close(fd);
  std::filesystem::remove(path);
}
