// `mlrun --stream`: the answers of each chunk of a sound, printed as soon as they are there.
#pragma once

#include <optional>
#include <string>

#include "base/cli/report.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/isolation.h"

namespace mlc::cli {

struct StreamOptions {
  bool is_on = false;
  std::string pcm;  // how raw samples are written; empty: the input is a file that says so itself
};

struct StreamWork {
  const OpenModel& model;
  const mlio::Target& target;
  const StreamOptions& options;
  const InputOptions& input;
  const LimitOptions& limits;
  std::optional<int64_t> top;
  bool as_json;
  const std::string& output;  // of -o; empty: none
};

// Usage where the pipeline has no stream, -o is no sound that it makes, or the options do not fit each other.
Status check_stream(const StreamWork& work);

struct StreamDone {
  uint64_t chunks = 0, samples = 0, run_ns = 0;
};
// Reads the sound and runs the chunks of it on the session. InputMismatch where there is none. `file`: of the sound that is made, null
// where none is written.
class StreamSound;
struct StreamInputs {
  std::unique_ptr<StreamSound> sound;
  std::vector<NamedTensor> beside;  // what all chunks are given
};
Result<StreamInputs> open_inputs(const StreamWork& work, OpenFiles& files, InputMemory& memory);
Result<StreamDone> run_chunks(const StreamWork& work, StreamInputs inputs, MlcSession* session, io::FileWriter* file);

}  // namespace mlc::cli
