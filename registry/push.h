// push: a container into a registry, its tag last. What is written is spec/registry.md, section 2.
#pragma once

#include <string>

#include "base/status.h"
#include "registry/client.h"
#include "registry/reference.h"

namespace mlc::registry {

inline constexpr uint64_t kRequestBytes = 64u << 20;

struct PushOptions {
  std::string file;
  Reference reference;                    // with a tag, without a digest
  uint64_t request_bytes = kRequestBytes;  // a larger file goes in pieces of half of that
  ClientOptions client;
};

struct PushResult {
  Digest manifest{}, blob{}, root{};
  std::string id;
  uint64_t version = 0, bytes = 0;
  uint64_t bytes_sent = 0;
  bool was_there = false;  // the file, that is: only its manifest was sent
};

// Every segment is hashed before anything is sent: what is pushed is good, whoever signed it.
[[nodiscard]] Result<PushResult> push(const PushOptions& options);

}  // namespace mlc::registry
