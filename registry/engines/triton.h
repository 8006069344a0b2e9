// config.pbtxt of Triton Inference Server for a program of a container, from what its manifest says.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "schema/manifest.h"

namespace mlc::registry::engines {

struct TritonOptions {
  std::string name;        // of the model in the repository
  std::string program;     // empty: `main`, or the default one if there is none of this name
  std::string pipeline;    // is served instead of a program, if not empty; "default": the one of the default program
  uint32_t max_batch = 0;  // rows of a request at most, where the program computes each by itself
};

struct TritonConfig {
  std::string text;
  std::string program;     // empty with a pipeline
  int64_t max_batch_size = 0;
};

[[nodiscard]] bool has_pipeline(const format::Manifest& manifest);

// Ports of a pipeline are not in the text: the backend completes them when it has the file.
// Usage: no such program; no pipeline. Unsupported: ports that Triton has no form for, all of them at once.
[[nodiscard]] Result<TritonConfig> triton_config(const format::Manifest& manifest, const TritonOptions& options);

}  // namespace mlc::registry::engines
