#include "packager/cli/build/apart.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "packager/cli/early_end.h"

namespace mlc::cli {
namespace {

// A status as bytes: code, number, then sentence, help and facts, each with its length.
void put(std::string& out, uint32_t v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); }
void put(std::string& out, const std::string& text) {
  put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

class Answer {
 public:
  explicit Answer(const std::string& bytes) : bytes_(bytes) {}
  bool get(uint32_t& v) {
    if (bytes_.size() - at_ < sizeof v) return false;
    std::memcpy(&v, bytes_.data() + at_, sizeof v);
    at_ += sizeof v;
    return true;
  }
  bool get(std::string& text) {
    uint32_t length = 0;
    if (!get(length) || bytes_.size() - at_ < length) return false;
    text = bytes_.substr(at_, length);
    at_ += length;
    return true;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

std::string encoded(const Status& s) {
  std::string out;
  put(out, static_cast<uint32_t>(s.code));
  put(out, uint32_t{s.number});
  put(out, s.message);
  put(out, s.help);
  for (const std::string& fact : s.facts) put(out, fact);
  return out;
}

bool decoded(const std::string& bytes, Status& out) {
  Answer answer(bytes);
  uint32_t code = 0, number = 0;
  std::string message, help, fact;
  if (!answer.get(code) || !answer.get(number) || !answer.get(message) || !answer.get(help)) return false;
  if (code != 0) out = Status(static_cast<Code>(code), static_cast<uint16_t>(number), std::move(message));
  while (!answer.at_end()) {
    if (!answer.get(fact)) return false;
    out.facts.push_back(std::move(fact));
  }
  out.help = std::move(help);
  return true;
}

[[noreturn]] void work_and_leave(int fd, const std::function<Status()>& work) {
  const std::string answer = encoded(work());
  for (size_t at = 0; at < answer.size();) {
    const ssize_t n = ::write(fd, answer.data() + at, answer.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
  ::_exit(0);  // not through what the parent has registered for its end
}

std::string all_of(int fd) {
  std::string bytes;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace

Status run_apart(const std::function<Status()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return Status(Code::Resource, std::string("no pipe: ") + std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return Status(Code::Resource, std::string("no process: ") + std::strerror(error));
  }
  if (child == 0) {
    end_as_child();
    if (::getppid() != parent) ::_exit(0);  // which ended before this process could ask to end with it
    ::close(ends[0]);
    work_and_leave(ends[1], work);
  }
  ends_with_us(child);
  ::close(ends[1]);
  const std::string bytes = all_of(ends[0]);
  ::close(ends[0]);
  int state = 0;
  while (::waitpid(child, &state, 0) < 0 && errno == EINTR) {}
  ends_with_us(0);
  if (WIFSIGNALED(state))
    return Status(Code::SelfTest, "ended by signal " + std::to_string(WTERMSIG(state)) + " (" + ::strsignal(WTERMSIG(state)) + ")");
  if (WEXITSTATUS(state) == static_cast<int>(Code::Resource)) return Status(Code::Resource, "out of memory");
  Status answer;
  if (!decoded(bytes, answer)) return Status(Code::SelfTest, "ended without an answer, exit code " + std::to_string(WEXITSTATUS(state)));
  return answer;
}

}  // namespace mlc::cli
