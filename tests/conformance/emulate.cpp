#include "tests/conformance/emulate.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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

Status spawn_and_wait(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) return Status(Code::NotFound, words[0] + " cannot be started");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok();
  std::ifstream in(log);
  std::ostringstream text;
  text << in.rdbuf();
  if (WIFSIGNALED(status)) return Status(Code::Internal, "ended by signal " + std::to_string(WTERMSIG(status)) + " " + text.str());
  return Status(Code::Internal, text.str().empty() ? "exit code " + std::to_string(WEXITSTATUS(status)) : text.str());
}

}  // namespace

Result<std::vector<nest::Tensor>> emulate(const std::vector<std::string>& command, Bytes container, const std::string& variant,
                                          const std::vector<nest::Tensor>& inputs) {
  const Folder folder;
  if (folder.path.empty()) return Status(Code::Resource, "no temporary folder can be made");
  const std::string file = folder.path / "case.mlc", in = folder.path / "inputs", out = folder.path / "outputs";
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(container.data()), static_cast<std::streamsize>(container.size()));
  MLC_RETURN_IF_ERROR(write_tensors(in, inputs));
  std::vector<std::string> words = command;
  for (const std::string& word : {file, variant, in, out}) words.push_back(word);
  MLC_RETURN_IF_ERROR(spawn_and_wait(words, folder.path / "log"));
  return read_tensors(out);
}

}  // namespace mlc::conformance
