#include "registry/stranger.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <type_traits>

#include "base/cli/report.h"
#include "base/files/unfinished.h"
#include "runtime/container/source.h"
#include "runtime/sandbox/sandbox.h"
#include "schema/format.h"
#include "signing/envelope.h"
#include "signing/files/file.h"

namespace mlc::registry {
namespace {

constexpr uint64_t kApartMemory = uint64_t{640} << 20, kApartSeconds = 60, kBytesPerSecond = 64u << 20;
constexpr size_t kMaxTold = 64u << 20;

// "a\nb\n" without its line ends; nothing where a line is missing.
std::string take_line(std::string& text) {
  const size_t end = text.find('\n');
  if (end == std::string::npos) return {};
  std::string line = cli::printable(std::string_view(text).substr(0, std::min<size_t>(end, 4096)));
  text.erase(0, end + 1);
  return line;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text + "\n";
}

// In the child: what `look` answers, or number, message and facts of what is wrong.
int answer_apart(const std::function<Result<std::string>()>& look, const sandbox::Limits& limits, const signing::Descriptor& told) {
  forget_unfinished();  // that is the parent's
  std::set_new_handler(nullptr);
  for (const int number : {SIGBUS, SIGSEGV}) std::signal(number, SIG_DFL);
  const auto answer = [&]() -> Result<std::string> {
    MLC_ASSIGN([[maybe_unused]] const sandbox::Confinement confinement, sandbox::confine(limits));
    return look();
  }();
  if (answer.ok()) return signing::write_all(told, *answer) ? 0 : static_cast<int>(Code::Resource);
  const Status& why = answer.status();
  std::string text = std::to_string(why.number) + "\n" + one_line(why.message);
  for (const std::string& fact : why.facts) text += one_line(fact);
  (void)signing::write_all(told, text);
  return static_cast<int>(why.code);
}

// What `look` answers in a process without privileges, which may be anything if the file has led it astray.
Result<std::string> ask_apart(const std::string& name, uint64_t file_bytes, const std::function<Result<std::string>()>& look) {
  const signing::Descriptor told(::memfd_create("mlpack-told", MFD_CLOEXEC));
  if (!told.valid()) return Status(Code::Resource, "no file of memory can be made");
  const sandbox::Limits limits{.memory_bytes = kApartMemory, .cpu_seconds = kApartSeconds + file_bytes / kBytesPerSecond};
  MLC_ASSIGN(const sandbox::ChildEnd end, sandbox::run_child({}, [&] { return answer_apart(look, limits, told); }));
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
    if (end.signal == number) return Status(Code::Cancelled, "{}: ended by signal {}", name, number);
  if (end.signal != 0) return Status(Code::Malformed, "{}: the process without privileges that read it was ended by signal {}", name, end.signal);
  if (::lseek(told.get(), 0, SEEK_SET) != 0) return Status(Code::Resource, "what was found out cannot be read");
  MLC_ASSIGN(std::string text, signing::read_all(told, "what was found out", kMaxTold));
  if (end.exit_code == 0) return text;
  const uint64_t number = signing::parse_decimal(take_line(text)).value_or(0);
  Status why(static_cast<Code>(end.exit_code), static_cast<uint16_t>(number), take_line(text));
  while (text.find('\n') != std::string::npos && why.facts.size() < 16) why.facts.push_back(take_line(text));
  return std::move(why).note(name);
}

}  // namespace

Result<Stranger> verify_apart(container::AuthenticatedFile file, const container::OpenOptions& how, uint64_t file_bytes) {
  const std::string name = file.name();
  MLC_ASSIGN(std::string text, ask_apart(name, file_bytes, [&]() -> Result<std::string> {
    MLC_ASSIGN(const auto opened, container::Container::open(std::move(file), how));
    MLC_RETURN_IF_ERROR(opened->verify_all());
    return one_line(opened->manifest().model.id) + std::to_string(opened->manifest().model.version) + "\n";
  }));
  Stranger found;
  found.id = take_line(text);
  found.version = signing::parse_decimal(take_line(text)).value_or(0);
  return found;
}

Result<std::vector<Leaf>> leaves_apart(const std::string& path) {
  MLC_ASSIGN(const auto source, container::open_file(path));
  MLC_ASSIGN(container::AuthenticatedFile file, container::AuthenticatedFile::open(path));
  MLC_ASSIGN(const std::string text, ask_apart(path, source->size(), [&]() -> Result<std::string> {
    const uint64_t manifest_len = file.manifest_len();
    container::OpenOptions how;
    how.verify = container::Verify::Lazy;
    how.allow_unsigned = true;
    how.now = 1;  // also one that has expired has the same bytes
    MLC_ASSIGN(const auto opened, container::Container::open(std::move(file), how));
    MLC_ASSIGN(const std::vector<Leaf> leaves, leaves_of(*opened, *source, manifest_len));
    return std::string(reinterpret_cast<const char*>(leaves.data()), leaves.size() * sizeof(Leaf));
  }));
  static_assert(std::is_trivially_copyable_v<Leaf>);
  std::vector<Leaf> leaves(text.size() / sizeof(Leaf));
  std::memcpy(leaves.data(), text.data(), leaves.size() * sizeof(Leaf));
  // Nothing of it is believed: what is taken from there is hashed.
  std::erase_if(leaves, [&](const Leaf& leaf) { return !range_within(leaf.offset, leaf.length, source->size()) || leaf.length > format::kMaxFrameLen; });
  return leaves;
}

}  // namespace mlc::registry
