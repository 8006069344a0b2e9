#include "packager/cli/look.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/checked.h"
#include "packager/cli/early_end.h"
#include "runtime/isolation/child_answer.h"

namespace mlc::cli {
namespace {

// Any time before any expiry: what has expired can be looked into, and be signed again.
constexpr uint64_t kBeforeExpiry = 1;

Result<container::AuthenticatedFile> authenticated(const std::string& path) { return container::AuthenticatedFile::open(path); }

// As mlrun decides it, for a user who asks for nothing.
bool is_trusted(const container::AuthenticatedFile& file, const Result<signing::TrustSet>& trust) {
  if (!trust.ok() || !file.authentication()) return false;
  signing::DecideOptions options;
  options.now = static_cast<uint64_t>(std::time(nullptr));
  options.file = file.name();
  const signing::Verdict signer = signing::decide_signer(*file.authentication(), *trust, options);
  return signing::native_code_before_manifest(signer, *file.authentication(), *trust, options) == signing::NativeCode::Certain;
}

ChildWork work_of(const std::vector<std::string>& paths) {
  ChildWork work{.sessions = static_cast<uint32_t>(paths.size()), .threads = std::thread::hardware_concurrency()};
  for (const std::string& path : paths) {
    std::error_code unknown;
    const uint64_t bytes = std::filesystem::file_size(path, unknown);
    if (!unknown) work.container_bytes = checked_add(work.container_bytes, bytes).value_or(UINT64_MAX);
  }
  return work;
}

}  // namespace

container::OpenOptions options_to_look(const SealedContainer& sealed) {
  container::OpenOptions options;
  options.allow_unsigned = true;
  options.workers = std::thread::hardware_concurrency();  // of the CPUs that this process may use
  if (sealed.isolated) options.verify = container::Verify::Lazy;
  return options;
}

Result<OpenContainer> look_into(SealedContainer& sealed) {
  if (!sealed.file.ok()) return std::move(sealed.file).status();
  const uint64_t manifest_len = sealed.file->manifest_len();
  std::optional<signing::Authentication> authentication = sealed.file->authentication();
  container::OpenOptions options = options_to_look(sealed);
  options.now = kBeforeExpiry;
  MLC_ASSIGN(auto opened, container::Container::open(std::move(*sealed.file), options));
  if (!authentication) return Status(Code::Internal, sealed.path + ": opened without its signatures");
  return OpenContainer{sealed.path, std::move(opened), std::move(*authentication), manifest_len};
}

int look(const LookCommand& command, const std::function<Result<Report>(std::vector<SealedContainer>&)>& body) {
  std::vector<int> inherited = sandbox::open_descriptors();
  std::erase(inherited, command.keep);
  std::vector<SealedContainer> sealed;
  bool isolated = false;
  std::string names;
  for (const std::string& path : command.paths) {
    auto again = command.looks_again ? authenticated(path) : Result<container::AuthenticatedFile>(Status(Code::Internal, path + ": not opened twice"));
    sealed.push_back({path, authenticated(path), std::move(again)});
    isolated = isolated || (sealed.back().file.ok() && !is_trusted(*sealed.back().file, command.trust));
    names += (names.empty() ? "" : " or ") + path;
  }
  for (SealedContainer& one : sealed) one.isolated = isolated;
  if (!isolated) return finish(command.name, command.as_json, body(sealed));
  const ChildCommand child{.name = command.name, .as_json = command.as_json, .file = names, .inherited = std::move(inherited), .begin = end_as_child,
                           .work = [&] { return Result<ChildWork>(work_of(command.paths)); }};
  return answer_in_child(child, false, [&] { return body(sealed); });
}

}  // namespace mlc::cli
