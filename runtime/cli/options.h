// Options that several commands share, and what they open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/cli/handles.h"

namespace CLI {
class App;
}

namespace mlc::cli {

struct ContainerOptions {
  std::string file;
  std::vector<std::string> trust_keys;
  std::string policy;
  bool allow_unsigned = false;
  bool allow_older = false;
  std::vector<std::string> services;  // that the file may use though nobody trusts it
  std::string verify = "auto";
  bool isolated = false;
};
void add_container_options(CLI::App& app, ContainerOptions& options);

struct OpenModel {
  ModelHandle model;
  MlcModelInfo info = sized<MlcModelInfo>();
  uint64_t open_ns = 0;
  bool isolated = false;
  operator mlio::ModelRef() const { return {api(), model.get()}; }
};
// Opens the file with the user's trust folder, the keys and the policy of the command line, as far as it can be without
// looking into it. `ns` is set to the time that took.
Result<FileHandle> authenticate(const ContainerOptions& options, uint64_t& ns);
// The rest. Warnings go to stderr.
struct OpenFiles;
Result<OpenModel> open_model(OpenFiles& files);

// Of a session and of each of its runs; empty: what the library does by default.
struct LimitOptions {
  std::string time, memory;
};
void add_limit_options(CLI::App& app, LimitOptions& options);

struct VariantOptions {
  std::string variant, require;
  uint32_t threads = 0;
  LimitOptions limits;
};
void add_variant_options(CLI::App& app, VariantOptions& options);

struct OpenSession {
  SessionHandle session;
  MlcSessionInfo info = sized<MlcSessionInfo>();
  uint64_t load_ns = 0;
};
// Loads a variant and pins this thread. `note` of the info goes to stderr: falling back is never silent.
Result<OpenSession> open_session(const OpenModel& model, const VariantOptions& options, bool profile = false);

// "x86-64-v3 · 2 threads", and why native code did not run where trust is missing.
std::string what_runs(const OpenModel& model, const OpenSession& session);

// "5s", "300ms", "0.3s": nanoseconds.
Result<uint64_t> parse_duration(const std::string& text);
// "192M", "2G", "65536": bytes.
Result<uint64_t> parse_size(const std::string& text);
uint64_t now_ns();

}  // namespace mlc::cli
