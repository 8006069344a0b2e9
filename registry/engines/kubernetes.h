// Objects of Kubernetes and KServe that serve a container by Triton with the backend `mlc`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cli/json_tree.h"
#include "schema/manifest.h"

namespace mlc::registry::engines {

// All of it is checked by the caller: names are labels of DNS, references are such, quantities are those of Kubernetes.
struct Deployed {
  std::string name;                     // of the model and the objects
  std::string id, version, root;        // what the container says
  std::string image;                    // with its digest: the container as an image, models/model.mlc in it
  std::string storage;                  // of KServe: the address that it fetches
  std::string server;                   // image of Triton with the backend
  std::string cpu, memory;
  uint32_t replicas = 1;
  std::string config;                   // config.pbtxt
  std::vector<std::string> keys;        // PEM of those whom the servers trust
};

struct Document {
  std::string file;
  cli::Json object;
};

// A ConfigMap, a Deployment with the model as an image volume, and a Service.
[[nodiscard]] std::vector<Document> kubernetes_documents(const Deployed& what);
// A ConfigMap, a ServingRuntime and an InferenceService.
[[nodiscard]] std::vector<Document> kserve_documents(const Deployed& what);

}  // namespace mlc::registry::engines
