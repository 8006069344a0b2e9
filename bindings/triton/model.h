// A model of Triton's repository as this backend holds it, and what each of its instances runs requests on.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text/json.h"
#include "runtime/api/mlc.h"
#include "runtime/mlio/mlio.h"

namespace mlc::triton {

// What `tritonserver --backend-config=mlc,KEY=VALUE` says, for all models.
struct Host {
  std::string config_folder;  // whose trust/ and trust.json are read; empty: those of the user whom the server runs as
  std::string policy;         // a trust.json
  std::string state_folder;   // where versions seen are remembered; empty: nowhere
  std::string trust;          // not empty: models cannot ask for another one
  std::string probe;          // mlrun, which asks drivers for devices

  // Usage for keys and values that are none.
  [[nodiscard]] static Result<Host> read(std::string_view json);
};

// `parameters` of a config.pbtxt.
struct Parameters {
  std::string trust = "strict";  // a signer whom the host trusts; "portable": others' files run interpreted; "any": without a signer
  std::string variant, devices, program;
  std::string pipeline;          // runs instead of a bare program; "default": the one of the default program
  uint32_t threads = 0;          // of a run; 0: one for each core
  uint32_t sequences = 0;        // whose states an instance keeps; 0: as many as Triton gives it slots
};

struct Port {
  std::string name;
  int32_t dtype = MLC_NONE;
  std::vector<int64_t> extents;  // -1: any
  bool is_file = false;          // an input of a pipeline: [1] of BYTES, the bytes of a picture, a sound or any file
};

struct ModelDeleter { void operator()(MlcModel* model) const; };
struct SessionDeleter { void operator()(MlcSession* session) const; };
struct PipelineDeleter { void operator()(MlioPipeline* pipeline) const; };
using SessionHandle = std::unique_ptr<MlcSession, SessionDeleter>;
using PipelineHandle = std::unique_ptr<MlioPipeline, PipelineDeleter>;

[[nodiscard]] const MlcApi& api();
// The error is released. By reference: a call that sets it may stand beside it, and which argument is evaluated first is open.
[[nodiscard]] Status status_of(int code, MlcError* const& error);

// Constant after `complete`; used by the threads of all instances.
class Model {
 public:
  // `config`: the model's configuration as JSON. `folder`: where its file is.
  [[nodiscard]] static Result<std::unique_ptr<Model>> open(const Host& host, const std::string& config, const std::string& folder);

  [[nodiscard]] Result<SessionHandle> session() const;
  const std::string& program() const { return program_; }
  const MlioPipeline* pipeline() const { return pipeline_.get(); }  // null: the program runs as it is
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::string& about() const { return about_; }  // for the log
  // `config` with the ports that it lacks and, for a program that keeps state, the batcher of sequences; empty: it lacks nothing.
  [[nodiscard]] Result<std::string> complete(const std::string& config);
  // Triton runs its sequences: each has a state of its own. Otherwise state begins anew with each request.
  bool has_sequences() const { return has_sequences_; }
  uint32_t most_sequences() const { return most_sequences_; }
  // Whether an input of requests is one that Triton's batcher of sequences adds.
  bool is_control(std::string_view input) const { return std::find(controls_.begin(), controls_.end(), input) != controls_.end(); }

 private:
  [[nodiscard]] Status choose_program();
  [[nodiscard]] Status read_ports();
  [[nodiscard]] Status check_config(const std::string& config) const;
  void read_sequences(const JsonValue& config);
  [[nodiscard]] std::string ports_text(bool is_output, bool has_rows) const;
  // "sequence_batching" of a configuration, with names that no port has.
  [[nodiscard]] std::string sequences_text();

  Parameters parameters_;
  std::unique_ptr<MlcModel, ModelDeleter> model_;
  PipelineHandle pipeline_;  // in front of the model, which outlives it
  std::string program_, about_;
  uint32_t program_index_ = 0, num_states_ = 0, most_sequences_ = 1;
  bool has_sequences_ = false;
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> controls_;
};

// Triton's element type of one of ours, 0 if there is none; and back.
[[nodiscard]] int triton_type(int32_t dtype);
[[nodiscard]] int32_t dtype_of(int triton_type);

}  // namespace mlc::triton
