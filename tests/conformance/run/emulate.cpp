#include "tests/conformance/run/emulate.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

extern char** environ;

namespace mlc::conformance {
namespace {
namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "mlc-case-XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

}  // namespace

Emulated::~Emulated() { stop(); }

std::string Emulated::stop() {
  if (pid_ == 0) return "";
  close(to_), close(from_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = 0;
  return WIFSIGNALED(status) ? std::string("crashed: ") + strsignal(WTERMSIG(status)) : "ended with code " + std::to_string(WEXITSTATUS(status));
}

Status Emulated::start() {
  if (pid_ != 0) return ok();
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0) return Status(Code::Resource, "no pipe can be made");
  if (pipe2(up, O_CLOEXEC) != 0) return close(down[0]), close(down[1]), Status(Code::Resource, "no pipe can be made");
  std::vector<char*> argv;
  for (const std::string& word : command_) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], 0);
  posix_spawn_file_actions_adddup2(&actions, up[1], 1);
  const int error = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(down[0]), close(up[1]);
  to_ = down[1], from_ = up[0];
  if (error == 0) return ok();
  close(to_), close(from_);
  pid_ = 0;
  return Status(Code::NotFound, command_[0] + " cannot be started");
}

// The answer is one line: "0" or the code of an error and its message.
Status Emulated::ask(const std::string& question) {
  for (size_t done = 0; done < question.size();) {
    const ssize_t n = write(to_, question.data() + done, question.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status(Code::Internal, stop());
    done += static_cast<size_t>(n);
  }
  std::string answer;
  for (char c = 0; c != '\n';) {
    const ssize_t n = read(from_, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status(Code::Internal, stop());
    if (c != '\n') answer += c;
  }
  char* message = nullptr;
  const long code = strtol(answer.c_str(), &message, 10);
  if (code == 0) return ok();
  return Status(static_cast<Code>(code), *message == ' ' ? message + 1 : message);
}

Result<std::vector<nest::Tensor>> Emulated::run(Bytes container, const std::string& variant, const std::vector<nest::Tensor>& inputs) {
  const Folder folder;
  if (folder.path.empty()) return Status(Code::Resource, "no temporary folder can be made");
  const std::string file = folder.path / "case.mlc", in = folder.path / "inputs", out = folder.path / "outputs";
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(container.data()), static_cast<std::streamsize>(container.size()));
  MLC_RETURN_IF_ERROR(write_tensors(in, inputs));
  MLC_RETURN_IF_ERROR(start());
  MLC_RETURN_IF_ERROR(ask(file + "\t" + variant + "\t" + in + "\t" + out + "\n"));
  return read_tensors(out);
}

}  // namespace mlc::conformance
