#include "registry/net/credentials.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/cli/report.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "signing/files/file.h"

extern char** environ;

namespace mlc::registry {
namespace {

constexpr JsonLimits kConfigLimits{kMaxDockerConfig, 32, 1u << 16};
constexpr std::string_view kHubNames[] = {"docker.io", "index.docker.io", "registry-1.docker.io"};
constexpr const char* kHubKey = "https://index.docker.io/v1/";  // as Docker writes its own registry's

// Entries are keyed by host, and by older tools as a URL.
std::string host_of_key(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  return std::string(key.substr(0, key.find('/')));
}

bool is_hub(std::string_view host) { return std::find(std::begin(kHubNames), std::end(kHubNames), host) != std::end(kHubNames); }

bool is_same_host(std::string_view key, const std::string& host) {
  const std::string other = host_of_key(key);
  return other == host || (is_hub(other) && is_hub(host));
}

// A name is a word of a file name, never a path.
bool is_helper_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

struct Ended {
  int status = -1;
  std::string output;
};

struct Pipe {
  signing::Descriptor from, to;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status(Code::Resource, "no pipe can be made");
  return Pipe{signing::Descriptor(ends[0]), signing::Descriptor(ends[1])};
}

// Runs `program get` with `input`; what it prints is the answer, what it complains of goes to our own stderr.
Result<Ended> run_helper(const std::string& program, const std::string& input) {
  MLC_ASSIGN(Pipe in, make_pipe());
  MLC_ASSIGN(Pipe out, make_pipe());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.from.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.to.get(), STDOUT_FILENO);
  std::string name = program, verb = "get";
  char* const arguments[] = {name.data(), verb.data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Status(Code::Usage, "{} cannot be started: {}", program, std::strerror(failed));
  in.from.close();
  out.to.close();
  (void)signing::write_all(in.to, input);  // shorter than a pipe holds; a helper that does not read has its own reasons
  in.to.close();
  Ended ended;
  auto text = signing::read_all(out.from, program, kMaxHelperAnswer);
  out.from.close();
  while (::waitpid(pid, &ended.status, 0) < 0 && errno == EINTR) {
  }
  if (!text.ok()) return std::move(text).status();
  ended.output = std::move(text).value();
  return ended;
}

Result<Credentials> from_helper(std::string_view helper, const std::string& host) {
  if (!is_helper_name(helper)) return Status(Code::Usage, "'{}' is no name of a credential helper", cli::printable(helper.substr(0, 64)));
  const std::string program = "docker-credential-" + std::string(helper);
  MLC_ASSIGN(const Ended ended, run_helper(program, is_hub(host) ? kHubKey : host));
  if (!WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0) {
    // This sentence is the helpers' protocol.
    if (ended.output.find("credentials not found") != std::string::npos) return Credentials{};
    return Status(Code::Usage, "{} gives no credentials for {}", program, host).hint("docker login " + host);
  }
  const auto answer = parse_json(ended.output, program, {kMaxHelperAnswer, 8, 64});
  const JsonValue* user = answer.ok() ? answer->root().find("Username") : nullptr;
  const JsonValue* secret = answer.ok() ? answer->root().find("Secret") : nullptr;
  if (user == nullptr || secret == nullptr) return Status(Code::Usage, "{} answers something that holds no Username and Secret", program);
  Credentials found;
  if (user->text() == "<token>") found.refresh_token = secret->text();
  else found = {std::string(user->text()), std::string(secret->text()), {}};
  return found;
}

Result<Credentials> from_entry(const JsonValue& entry, const std::string& name, const std::string& host) {
  Credentials found;
  if (const JsonValue* token = entry.find("identitytoken"); token != nullptr && !token->text().empty()) {
    found.refresh_token = token->text();
    return found;
  }
  if (const JsonValue* user = entry.find("username")) found.user = user->text();
  if (const JsonValue* password = entry.find("password")) found.password = password->text();
  if (const JsonValue* both = entry.find("auth"); both != nullptr && !both->text().empty()) {
    const auto decoded = from_base64(both->text());
    const size_t colon = decoded ? decoded->find(':') : std::string::npos;
    if (colon == std::string::npos) return Status(Code::Usage, "{}: auth of {} is not USER:PASSWORD in base64", name, host);
    found.user = decoded->substr(0, colon);
    found.password = decoded->substr(colon + 1);
    while (!found.password.empty() && found.password.back() == '\0') found.password.pop_back();
  }
  return found;
}

}  // namespace

std::string docker_config_path() {
  if (const char* folder = std::getenv("DOCKER_CONFIG"); folder != nullptr && *folder != 0) return std::string(folder) + "/config.json";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == 0 ? std::string() : std::string(home) + "/.docker/config.json";
}

Result<Credentials> credentials_for(std::string_view config, const std::string& name, const std::string& host) {
  auto document = parse_json(config, name, kConfigLimits);
  if (!document.ok()) return Status(Code::Usage, document.status().message);
  const JsonValue& root = document->root();
  if (const JsonValue* helpers = root.find("credHelpers"))
    for (const auto& [key, helper] : helpers->members())
      if (is_same_host(key.text(), host)) return from_helper(helper.text(), host);
  if (const JsonValue* store = root.find("credsStore"); store != nullptr && !store->text().empty()) {
    MLC_ASSIGN(Credentials found, from_helper(store->text(), host));
    if (!found.empty()) return found;
  }
  if (const JsonValue* entries = root.find("auths"))
    for (const auto& [key, entry] : entries->members())
      if (is_same_host(key.text(), host)) return from_entry(entry, name, host);
  return Credentials{};
}

Result<Credentials> credentials_for(const std::string& host) {
  const std::string path = docker_config_path();
  if (path.empty()) return Credentials{};
  MLC_ASSIGN(const bool is_there, signing::file_exists(path));
  if (!is_there) return Credentials{};
  MLC_ASSIGN(const std::string config, signing::read_small_file(path, kMaxDockerConfig));
  return credentials_for(config, path, host);
}

}  // namespace mlc::registry
