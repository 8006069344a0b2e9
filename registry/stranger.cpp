#include "registry/stranger.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>

#include "base/cli/report.h"
#include "base/unfinished.h"
#include "runtime/sandbox/sandbox.h"
#include "signing/envelope.h"
#include "signing/file.h"

namespace mlc::registry {
namespace {

constexpr uint64_t kApartMemory = uint64_t{640} << 20, kApartSeconds = 60, kBytesPerSecond = 64u << 20;
constexpr size_t kMaxTold = 64u << 10;

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

// In the child: id and version, or number, message and facts of what is wrong.
int look(container::AuthenticatedFile& file, const container::OpenOptions& how, const sandbox::Limits& limits, const signing::Descriptor& told) {
  forget_unfinished();  // that is the parent's
  std::set_new_handler(nullptr);
  for (const int number : {SIGBUS, SIGSEGV}) std::signal(number, SIG_DFL);
  const auto answer = [&]() -> Result<std::string> {
    MLC_ASSIGN([[maybe_unused]] const sandbox::Confinement confinement, sandbox::confine(limits));
    MLC_ASSIGN(const auto opened, container::Container::open(std::move(file), how));
    MLC_RETURN_IF_ERROR(opened->verify_all());
    return one_line(opened->manifest().model.id) + std::to_string(opened->manifest().model.version) + "\n";
  }();
  if (answer.ok()) return signing::write_all(told, *answer) ? 0 : static_cast<int>(Code::Resource);
  const Status& why = answer.status();
  std::string text = std::to_string(why.number) + "\n" + one_line(why.message);
  for (const std::string& fact : why.facts) text += one_line(fact);
  (void)signing::write_all(told, text);
  return static_cast<int>(why.code);
}

Result<std::string> read_told(const signing::Descriptor& told) {
  if (::lseek(told.get(), 0, SEEK_SET) != 0) return Status(Code::Resource, "what was found out cannot be read");
  return signing::read_all(told, "what was found out", kMaxTold);
}

}  // namespace

Result<Stranger> verify_apart(container::AuthenticatedFile file, const container::OpenOptions& how, uint64_t file_bytes) {
  const signing::Descriptor told(::memfd_create("mlpack-told", MFD_CLOEXEC));
  if (!told.valid()) return Status(Code::Resource, "no file of memory can be made");
  const std::string name = file.name();
  const sandbox::Limits limits{.memory_bytes = kApartMemory, .cpu_seconds = kApartSeconds + file_bytes / kBytesPerSecond};
  MLC_ASSIGN(const sandbox::ChildEnd end, sandbox::run_child({}, [&] { return look(file, how, limits, told); }));
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
    if (end.signal == number) return Status(Code::Cancelled, "{}: ended by signal {}", name, number);
  if (end.signal != 0) return Status(Code::Malformed, "{}: the process without privileges that read it was ended by signal {}", name, end.signal);
  MLC_ASSIGN(std::string text, read_told(told));
  if (end.exit_code == 0) {
    Stranger found;
    found.id = take_line(text);
    found.version = signing::parse_decimal(take_line(text)).value_or(0);
    return found;
  }
  const uint64_t number = signing::parse_decimal(take_line(text)).value_or(0);
  Status why(static_cast<Code>(end.exit_code), static_cast<uint16_t>(number), take_line(text));
  while (!text.empty() && text.find('\n') != std::string::npos && why.facts.size() < 16) why.facts.push_back(take_line(text));
  return std::move(why).note(name);
}

}  // namespace mlc::registry
