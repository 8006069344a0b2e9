// libs: mlc_container_reader mlc_container_writer
// The trailer of an executable, its ELF header, and the file as the reader of containers opens it (spec/container.md, section 13). Properties: a part that is found is the
// one of the trailer and fills the file up to it; its bytes are those of the file; a good container behind a right trailer opens as itself; what is wrong is an error.
//
// An input: [pages of the runner][flags][trailer, 24 bytes][length of the file, 8][content]. The pages are made here, since a trailer needs its container at a multiple of 65,536.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/byte_cursor.h"
#include "runtime/container/source.h"
#include "schema/executable.h"
#include "tests/support/containers/sample_container.h"

using namespace mlc;
using namespace mlc::format;

namespace {

constexpr size_t kFront = 2 + kTrailerLen + 8;
constexpr uint8_t kSampleBehind = 1, kRightTrailer = 2, kNoRunner = 4;

void must(bool holds) {
  if (!holds) std::abort();
}

// The text of a trailer against any length of a file.
void check_trailer(std::span<const std::byte, kTrailerLen> last, uint64_t file_bytes) {
  const ContainerPart before{1, 2};
  ContainerPart part = before;
  const bool is_one = std::equal(kTrailerMagic.begin(), kTrailerMagic.end(), reinterpret_cast<const char*>(last.data()));
  if (file_bytes < kTrailerLen) return;  // is not asked
  const Status status = find_part(last, file_bytes, "fuzz", part);
  if (!status.ok()) return must(is_one && status.code == Code::Malformed && status.number == 1102);
  if (!is_one) return must(part.offset == before.offset && part.length == before.length);
  must(part.offset != 0 && part.offset % kPageAlign == 0 && part.length >= kHeaderLen && part.offset <= file_bytes - kTrailerLen);
  must(part.length == file_bytes - kTrailerLen - part.offset);
  const auto again = trailer_of(part);
  must(std::equal(again.begin(), again.end(), last.begin()));
}

// The file itself, through the reader.
void check_file(Bytes file, bool is_sample) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  must(fd >= 0 && ::write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  auto source = container::open_descriptor(fd, "fuzz");
  ::close(fd);
  if (source.ok()) {
    const uint64_t size = (*source)->size();
    must(size <= file.size());
    const bool is_whole = size == file.size();
    const Bytes expected = is_whole ? file : file.subspan(file.size() - kTrailerLen - size, size);
    std::vector<std::byte> found(size);
    must((*source)->read(0, found).ok() && std::equal(found.begin(), found.end(), expected.begin()));
    std::byte behind{};
    must(!(*source)->read(size, std::span(&behind, 1)).ok());  // neither the trailer nor the runner can be reached
    auto opened = container::AuthenticatedFile::open_source(std::move(*source));
    if (opened.ok()) {
      auto container = container::Container::open(std::move(*opened), test::trusting());
      if (is_sample) must(container.ok() && (*container)->verify_all().ok());
    } else {
      must(!is_sample);
    }
  } else {
    must(!is_sample);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kFront) return 0;
  static const std::vector<std::byte> sample = test::sample_bytes();
  const Bytes input = std::as_bytes(std::span(data, size));
  const uint64_t pages = data[0] % 3;
  const uint8_t flags = data[1];
  const auto said = input.subspan<2, kTrailerLen>();
  const Bytes content = input.subspan(kFront);
  check_trailer(said, load_uint(input.subspan<2 + kTrailerLen, 8>()));
  (void)elf_end(content);

  std::vector<std::byte> file;
  if (!(flags & kNoRunner)) {
    file.assign(content.begin(), content.begin() + static_cast<ptrdiff_t>(std::min<size_t>(content.size(), kPageAlign)));
    file.resize((pages + 1) * kPageAlign);
  }
  const uint64_t begin = file.size();
  const Bytes behind = flags & kSampleBehind ? Bytes(sample) : content;
  file.insert(file.end(), behind.begin(), behind.end());
  if (flags & kRightTrailer) {
    const auto right = trailer_of({begin, file.size() - begin});
    file.insert(file.end(), right.begin(), right.end());
  } else {
    file.insert(file.end(), said.begin(), said.end());
  }
  check_trailer(std::span(file).last<kTrailerLen>(), file.size());
  // What begins as a container is one, whatever it ends with.
  const bool begins_otherwise = std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0;
  check_file(file, begins_otherwise && (flags & kSampleBehind) && (flags & kRightTrailer) && !(flags & kNoRunner));
  return 0;
}
