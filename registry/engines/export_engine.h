// `mlpack export --as k8s|kserve|triton`: a folder that an engine serves the container from. Knows no network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::registry::engines {

enum class Engine : uint8_t { Kubernetes, Kserve, Triton };

struct EngineOptions {
  Engine engine = Engine::Triton;
  std::string file, folder;
  std::string name;                   // empty: made of the model's id
  std::string program, pipeline;      // as in TritonOptions
  uint32_t max_batch = 64;
  // Not of Triton.
  std::string image;                  // HOST/REPOSITORY[:TAG] to which the container is pushed as an image; empty: an example
  std::string storage;                // of KServe; empty: oci:// and the image
  std::string server;
  std::string cpu = "2", memory;      // memory empty: of the file's size
  uint32_t replicas = 1;
  std::vector<std::string> trust;     // public keys; none: those here that vouch for the file
};

struct EngineResult {
  std::string name, program, pipeline; // one of program and pipeline
  std::string id, image, root;        // image: with the digest that it will have; empty with Triton
  uint64_t version = 0;
  int64_t max_batch_size = 0;
  std::vector<std::string> files;     // below the folder
  std::vector<std::string> notes;     // what the user has to do, or may not expect
};

// Every segment is hashed first. k8s and kserve: the folder must not exist, or be empty; triton: it may hold other models. It
// appears complete or not at all. Untrusted, Unsigned: the servers would refuse the file.
[[nodiscard]] Result<EngineResult> export_engine(const EngineOptions& options);

// "acme/Cat 2" as the label of DNS "cat-2"; "model" where nothing of it can be in one.
[[nodiscard]] std::string name_of_id(const std::string& id);

}  // namespace mlc::registry::engines
