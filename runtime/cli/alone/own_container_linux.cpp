#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/files/file_calls.h"
#include "runtime/cli/alone/own_container.h"
#include "schema/executable.h"
#include "schema/format.h"

namespace mlc::cli {
namespace {

constexpr const char* kOwnFile = "/proc/self/exe";

struct OwnFile {
  int fd = -1;
  std::string name;
};

// Where /proc is missing, the name by which the system was asked to run this program: it was good then.
Result<OwnFile> open_own_file() {
  const int fd = open_to_read(kOwnFile, Waiting::No);
  const int error = errno;
  if (fd >= 0) {
    char path[4096];
    const ssize_t length = ::readlink(kOwnFile, path, sizeof path);
    const bool is_whole = length > 0 && static_cast<size_t>(length) < sizeof path;
    return OwnFile{fd, is_whole ? std::string(path, static_cast<size_t>(length)) : kOwnFile};
  }
  const auto* const given = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (const int other = given ? open_to_read(given, Waiting::No) : -1; other >= 0) return OwnFile{other, given};
  return Status(Code::NotFound, "this program cannot read its own file, so whether a container is in it is not known: {}: {}", kOwnFile, std::strerror(error))
      .hint("mount /proc, or name a container");
}

// Whether a container begins where one goes behind the program.
bool is_cut_off(int fd, Bytes front) {
  const auto end = format::elf_end(front);
  const auto begin = end ? format::offset_behind(*end) : std::nullopt;
  std::array<uint8_t, format::kMagic.size()> magic{};
  return begin && read_some_at(fd, magic.data(), magic.size(), *begin) == int64_t{magic.size()} && magic == format::kMagic;
}

Result<std::optional<OwnContainer>> look() {
  MLC_ASSIGN(const OwnFile own, open_own_file());
  struct stat info = {};
  std::array<std::byte, 64> front{};
  std::array<std::byte, format::kTrailerLen> last{};
  const uint64_t size = ::fstat(own.fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  if (size < front.size() || read_some_at(own.fd, front.data(), front.size(), 0) != int64_t{front.size()} ||
      read_some_at(own.fd, last.data(), last.size(), size - last.size()) != int64_t{last.size()})
    return Status(Code::NotFound, "{}: cannot be read", own.name);
  format::ContainerPart part;
  MLC_RETURN_IF_ERROR(format::find_part(last, size, own.name, part));
  if (part.length != 0) return std::optional(OwnContainer{own.name, own.name.substr(own.name.rfind('/') + 1), own.fd});
  if (is_cut_off(own.fd, front))
    return Status(Code::Malformed, 1101, "{} is truncated: {} bytes found, and {}", own.name, size, format::kRunnerMark).hint("copy or download it again");
  close_descriptor(own.fd);
  return std::optional<OwnContainer>();
}

}  // namespace

const Result<std::optional<OwnContainer>>& own_container() {
  static const Result<std::optional<OwnContainer>> found = look();
  return found;
}

}  // namespace mlc::cli
