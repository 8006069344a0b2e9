// Options that several commands share, and what they open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cli/command.h"
#include "base/cli/json_tree.h"
#include "base/status.h"
#include "runtime/cli/handles.h"
#include "runtime/match/matcher.h"

namespace mlc::cli {

struct ContainerOptions {
  std::string file;
  std::vector<std::string> trust_keys;
  std::string policy;
  bool allow_unsigned = false;
  bool allow_older = false;
  std::vector<std::string> services;  // that the file may use though it is not trusted
  std::string verify = "auto";
  bool isolated = false;
  std::vector<std::string> devices;  // MlcOpenOptions.devices, in parts that are joined with ";"; none: "auto"
  bool remember = true;  // the versions seen
};
// Without the name of a file where a container is in the program's own (alone/own_container.h): it is that one.
void add_container_options(const Command& command, ContainerOptions& options);
// MlcOpenOptions.devices.
std::string devices_of(const ContainerOptions& options);
// Whether it is that one; `options` mean it then.
bool use_own_container(ContainerOptions& options);
// A command of mlrun in a hint as this program is called: where it is alone there need be no mlrun.
std::string as_called_here(const std::string& hint);

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
void add_limit_options(const Command& command, LimitOptions& options);
// In bytes; 0 where nothing is said, MLC_NO_LIMIT for "none".
Result<uint64_t> memory_limit(const LimitOptions& options);
// In nanoseconds, likewise.
Result<uint64_t> time_limit(const LimitOptions& options);

struct VariantOptions {
  std::string variant, require;
  std::string objective, place;  // of several devices together; empty: not given
  uint32_t threads = 0;
  LimitOptions limits;
};
void add_variant_options(const Command& command, VariantOptions& options);

struct OpenSession {
  SessionHandle session;
  MlcSessionInfo info = sized<MlcSessionInfo>();
  uint64_t load_ns = 0;
  std::optional<uint32_t> program{};  // as of SessionUse
  std::string noted;  // of the info's note, which runs add to: `note` itself is valid until the next one
};
struct SessionUse {
  bool profile = false;
  uint64_t taken = 0;  // of --memory-limit, by inputs
  bool pin = true;     // keep this thread on a CPU
  bool is_quiet = false;  // the note has been said
  std::optional<uint32_t> program{};  // that alone will be run: the info is that of its variant, else of the main program's
};
// Loads a variant. `note` of the info goes to stderr: falling back is never silent.
Result<OpenSession> open_session(const OpenModel& model, const VariantOptions& options, const SessionUse& use = {});
// What runs have added to the note since: that something was done on the processor in place of a device. Empty: nothing.
std::string fell_back(const OpenSession& session);
// The same on stderr.
void say_what_fell_back(const OpenSession& session);
// "gpu0, Some Card, cuda (CUDA 13.0, graphs), 1024 MiB".
std::string device_text(const MlcDevice& device);
// By which driver the session runs on its device; empty: on the processor, or on several.
std::string device_text(const OpenModel& model, const OpenSession& session);
// Which variant runs each program, of a file of several: "detect  cuda-sm90, gpu0".
struct ProgramChoice {
  std::string program, variant, device;  // device empty: the processor
  uint64_t measured_ns = 0;              // by mlrun tune; 0: not measured, or not asked for
  bool is_remembered = false;            // it was the fastest then
};
std::vector<ProgramChoice> programs_on(const OpenModel& model, const MlcSession* session);
Json programs_json(const std::vector<ProgramChoice>& programs);
// NoVariant and Usage as open_session, before anything is loaded.
Status check_variant(const OpenModel& model, const VariantOptions& options);

// "x86-64-v3 · 2 threads · FIGURES" on stderr; where trust is missing, lines that say why native code did not run and what to do.
// Nothing where the answer is JSON, which has the same in fields.
void say_what_runs(const OpenModel& model, const OpenSession& session, const std::string& figures, bool as_json);

// The same for every answer of a run.
Json fields_of_run(const OpenModel& model, const OpenSession& session);

MlcVariant variant_at(const OpenModel& model, uint32_t index);
std::vector<FailingClause> failing_of(const OpenModel& model, uint32_t variant);

// "5s", "300ms", "0.3s": nanoseconds.
Result<uint64_t> parse_duration(const std::string& text);
// "192M", "2G", "65536": bytes.
Result<uint64_t> parse_size(const std::string& text);
uint64_t now_ns();

}  // namespace mlc::cli
