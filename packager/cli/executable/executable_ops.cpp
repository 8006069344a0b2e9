#include "packager/cli/executable/executable_ops.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/byte_cursor.h"
#include "base/files/file_calls.h"
#include "packager/cli/container_file.h"
#include "schema/features.h"
#include "schema/format.h"

namespace mlc::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostRunnerBytes = uint64_t{1} << 30;

// Beside this program as they are built, and as they are installed.
Result<std::string> runner_for(const ExecutableOptions& options) {
  if (!options.runner.empty()) return options.runner;
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const fs::path& place : {folder / "mlrun-alone", folder.parent_path() / "lib/mlrt/mlrun-alone"})
    if (regular_file_size(place.string())) return place.string();
  return Status(Code::NotFound, "mlrun-alone, which goes in front of the container, is neither beside mlpack nor in ../lib/mlrt").hint("--runner FILE");
}

struct RunnerFile {
  std::string path, machine;
  std::vector<std::byte> bytes;
};

std::string machine_of(Bytes elf) {
  const uint64_t number = load_uint(elf.subspan(18, 2));
  for (const Machine m : kMachines)
    if (static_cast<uint64_t>(m) == number) return std::string(name_of(m));
  return "ELF machine " + std::to_string(number);
}

Result<RunnerFile> read_runner(const ExecutableOptions& options) {
  RunnerFile runner;
  MLC_ASSIGN(runner.path, runner_for(options));
  const auto size = regular_file_size(runner.path);
  if (!size) return Status(Code::NotFound, "--runner: {} is no file that can be read", runner.path);
  const Status none = Status(Code::Usage, "--runner: {} is no mlrun that finds a container in its own file", runner.path).hint("an mlrun, or mlrun-alone, of this version or a later one");
  if (*size > kMostRunnerBytes) return none;
  runner.bytes.resize(*size);
  std::ifstream in(runner.path, std::ios::binary);
  in.read(reinterpret_cast<char*>(runner.bytes.data()), static_cast<std::streamsize>(*size));
  if (!in) return Status(Code::NotFound, "--runner: {} cannot be read", runner.path);
  const std::string_view text(reinterpret_cast<const char*>(runner.bytes.data()), runner.bytes.size());
  if (!format::elf_end(runner.bytes) || text.find(format::kRunnerMark) == text.npos) return none;
  MLC_ASSIGN(const auto part, part_in(runner.path));
  if (part) return Status(Code::Usage, "--runner: {} has a container already", runner.path).hint("name an mlrun without one");
  runner.machine = machine_of(runner.bytes);
  return runner;
}

Status may_replace(const ExecutableOptions& options) {
  const auto there = part_in(options.output);  // where that is damaged, it was an executable as well
  if (there.ok() ? there->has_value() : there.status().number == 1102) return container::OutputFile::try_create(options.output);
  MLC_RETURN_IF_ERROR(container::may_write(options.output, options.force));
  return container::OutputFile::try_create(options.output);
}

// As files of this process get their rights, and executable with them.
Status make_executable(const container::OutputFile& out, const std::string& path) {
  struct stat info = {};
  const mode_t read = ::fstat(out.descriptor(), &info) == 0 ? info.st_mode & 0444 : 0400;
  if (::fchmod(out.descriptor(), (info.st_mode & 0777) | read >> 2) == 0) return ok();
  return Status(Code::NotFound, "{} cannot be made executable: {}", path, std::strerror(errno));
}

Result<Digest> root_of(const std::string& path) {
  container::OpenOptions options;
  options.allow_unsigned = true;
  options.now = 1;  // before any expiry: nothing is run
  MLC_ASSIGN(const auto opened, container::Container::open(path, options));
  return opened->root();
}

}  // namespace

Status may_write_executable(const ExecutableOptions& options) {
  MLC_ASSIGN(const RunnerFile runner, read_runner(options));
  return may_replace(options);
}

Result<ExecutableResult> write_executable(const ExecutableOptions& options) {
  MLC_ASSIGN(const RunnerFile runner, read_runner(options));
  MLC_RETURN_IF_ERROR(may_replace(options));
  MLC_ASSIGN(const ContainerFile file, open_container_file(options.file));
  ExecutableResult result{file.opened->root(), options.output, runner.path, runner.machine, 0, runner.bytes.size(), {}};
  const auto offset = format::offset_behind(runner.bytes.size());
  if (!offset) return Status(Code::Internal, "{}: {} bytes", runner.path, runner.bytes.size());
  result.part = {*offset, file.opened->file_size()};
  MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(options.output));
  MLC_RETURN_IF_ERROR(out.write(runner.bytes));
  MLC_RETURN_IF_ERROR(out.write(std::vector<std::byte>(*offset - runner.bytes.size())));
  MLC_RETURN_IF_ERROR(copy_range(file.path, 0, result.part.length, [&](Bytes bytes) { return out.write(bytes); }));
  MLC_RETURN_IF_ERROR(out.write(format::trailer_of(result.part)));
  MLC_RETURN_IF_ERROR(make_executable(out, options.output));
  MLC_ASSIGN(const std::string staged, out.flushed());
  MLC_ASSIGN(const Digest written, root_of(staged));
  if (written != result.root) return Status(Code::Malformed, "{} changed while it was copied", options.file);
  MLC_RETURN_IF_ERROR(out.commit());
  result.bytes = *offset + result.part.length + format::kTrailerLen;
  return result;
}

Result<std::optional<format::ContainerPart>> part_in(const std::string& path) {
  std::array<std::byte, format::kTrailerLen> last{};
  std::array<uint8_t, format::kMagic.size()> first{};
  const uint64_t size = regular_file_size(path).value_or(0);
  std::ifstream in(path, std::ios::binary);
  if (size < last.size() || !in.read(reinterpret_cast<char*>(first.data()), first.size()) || first == format::kMagic) return std::optional<format::ContainerPart>();
  in.seekg(static_cast<std::streamoff>(size - last.size()));
  if (!in.read(reinterpret_cast<char*>(last.data()), last.size())) return Status(Code::NotFound, "{} cannot be read completely", path);
  format::ContainerPart part;
  MLC_RETURN_IF_ERROR(format::find_part(last, size, path, part));
  return part.length == 0 ? std::optional<format::ContainerPart>() : std::optional(part);
}

Result<TakenContainer> take_container(const std::string& file, const std::string& output, bool force) {
  MLC_ASSIGN(const auto part, part_in(file));
  MLC_ASSIGN(const ContainerFile opened, open_container_file(file));
  if (!part) return Status(Code::Usage, "{} is a container, and no executable with one: --what says which parts of it", file).hint("--what interface");
  MLC_RETURN_IF_ERROR(container::may_write(output, force));
  const TakenContainer taken{opened.opened->root(), opened.opened->file_size()};
  MLC_RETURN_IF_ERROR(write_checked(
      output, taken.root, file, [&](container::OutputFile& out) { return copy_range(file, 0, taken.bytes, [&](Bytes bytes) { return out.write(bytes); }); },
      [](const OpenContainer& written) { return written.opened->verify_all(); }));
  return taken;
}

}  // namespace mlc::cli
