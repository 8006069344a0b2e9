#include "targets/llvm/link.h"

#include <lld/Common/Driver.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>

#include "base/files/unfinished.h"

LLD_HAS_DRIVER(elf)

namespace mlc::targets {

namespace {

// lld reads and writes files; they live in a folder of our own that ends with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    // Registered before it exists, so that no signal finds it unknown; the name is as random as it takes for that.
    uint64_t random = 0;
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error || ::getrandom(&random, sizeof random, 0) != sizeof random) return;
    const std::string path = (folder / ("mlpack-" + std::to_string(random))).string();
    unfinished_.emplace(path);
    if (::mkdir(path.c_str(), 0700) == 0) path_ = path;
    else unfinished_.reset();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    reserve_.reset();
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  Status status() const {
    if (!path_.empty()) return ok();
    return Status(Code::NotFound, "no temporary folder could be made").hint("set TMPDIR to a writable folder");
  }

 private:
  static constexpr size_t kReserve = 64 * 1024;  // to list a folder takes 32 KiB, which there may not be where memory ran out
  std::unique_ptr<char[]> reserve_ = std::make_unique<char[]>(kReserve);
  std::string path_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace

Status lack(const std::string& errors) {
  for (const std::errc why : {std::errc::not_enough_memory, std::errc::no_space_on_device, std::errc::file_too_large})
    if (const std::string words = std::make_error_code(why).message(); errors.find(words) != errors.npos)
      return Status(Code::Resource, "the module cannot be linked: " + words).hint("set TMPDIR to a folder with room");
  return ok();
}

Status can_link() { return TemporaryFolder().status(); }

Result<std::vector<std::byte>> link_module(const Target& target, const std::vector<std::vector<char>>& objects) {
  // lld keeps its state in globals, and does not promise to be usable after a crash.
  static std::mutex mutex;
  static bool usable = true;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!usable) return Status(Code::Internal, "the linker failed earlier in this process");
  const TemporaryFolder folder;
  MLC_RETURN_IF_ERROR(folder.status());
  const std::string output = folder.path() + "/module.so";
  // Not mapped: of a file that the disk has no room for, writing reports it, and touching its pages ends the process.
  std::vector<std::string> args = {
      "ld.lld", "-shared", "-nostdlib", "--no-undefined", "--gc-sections", "--icf=all", "--discard-all", "-s",
      "-Bsymbolic", "-z", "now", "-z", "relro", "-z", "noexecstack", "-z", "noseparate-code", "-z",
      "max-page-size=65536", "--hash-style=sysv", "--build-id=none", "--threads=1", "--no-mmap-output-file", "-o", output};
  for (size_t k = 0; k < objects.size(); ++k) {
    args.push_back(folder.path() + "/" + std::to_string(k) + ".o");
    std::ofstream file(args.back(), std::ios::binary);
    file.write(objects[k].data(), static_cast<std::streamsize>(objects[k].size()));
    if (!file.flush()) return Status(Code::Resource, "the temporary folder " + folder.path() + " cannot be written");
  }
  std::vector<const char*> raw;
  for (const std::string& a : args) raw.push_back(a.c_str());
  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  const lld::Result result = lld::lldMain(raw, out_stream, err_stream, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) MLC_RETURN_IF_ERROR(lack(err));
  if (result.retCode != 0)
    return Status(Code::Internal, "linking the module of " + target.name + " failed: " + err.substr(0, 1000));

  std::ifstream file(output, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size <= 0) return Status(Code::Resource, "the linked module cannot be read back");
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size))
    return Status(Code::Resource, "the linked module cannot be read back");
  return bytes;
}

}  // namespace mlc::targets
