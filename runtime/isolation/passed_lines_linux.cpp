#include "runtime/isolation/passed_lines.h"

#include <sys/mman.h>
#include <unistd.h>

namespace mlc::cli {
namespace {
constexpr size_t kMostBytes = size_t{1} << 20;
}

PassedLines::PassedLines() : file_(memfd_create("lines", MFD_CLOEXEC)) {}

Status PassedLines::put(const std::vector<std::string>& lines) const {
  std::string text;
  for (const std::string& line : lines)
    if (line.find('\n') == line.npos && text.size() + line.size() < kMostBytes) text += line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(file_.get(), text.data() + at, text.size() - at);
    if (n <= 0) return Status(Code::Resource, "the lines could not be passed on");
    at += static_cast<size_t>(n);
  }
  return ok();
}

std::vector<std::string> PassedLines::get() const {
  if (!file_.valid() || lseek(file_.get(), 0, SEEK_SET) != 0) return {};
  const auto text = signing::read_all(file_, "lines", kMostBytes);
  std::vector<std::string> out;
  for (size_t at = 0; text && at < text->size();) {
    const size_t end = text->find('\n', at);
    out.push_back(text->substr(at, end - at));
    if (end == text->npos) break;
    at = end + 1;
  }
  return out;
}

}  // namespace mlc::cli
