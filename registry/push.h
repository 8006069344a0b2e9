// push and export: a container into a registry or a folder. What is written is spec/registry.md, section 2.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "registry/net/client.h"
#include "registry/statements.h"
#include "registry/texts/reference.h"
#include "registry/store/store.h"

namespace mlc::registry {

enum class ShapeKind : uint8_t { Modelpack, Image, Both, Parts };

struct PushOptions {
  std::string file;
  Reference reference;                     // with a tag, without a digest
  ShapeKind shape = ShapeKind::Modelpack;
  uint64_t request_bytes = kRequestBytes;  // a larger file goes in pieces of half of that
  ClientOptions client;
  StatementOptions statements;             // go with it
};

struct ExportOptions {
  std::string file, folder, tag = "latest";
  ShapeKind shape = ShapeKind::Modelpack;
};

struct PushResult {
  Digest manifest{};  // or index: what the tag leads to
  Digest blob{};      // of the file; with Image, of the layer
  Digest root{};
  std::string id;
  uint64_t version = 0, bytes = 0;
  uint64_t bytes_sent = 0;
  std::vector<std::string> statements;  // the types of those that went with it
  size_t layers = 0, layers_sent = 0;  // each once, whatever names it how often
  // Only what is around the layers was sent.
  [[nodiscard]] bool was_there() const { return layers_sent == 0; }
};

// Every segment is hashed before anything is sent: what is pushed is good, whatever its signer.
[[nodiscard]] Result<PushResult> push(const PushOptions& options);
// An OCI image layout; the folder must not exist, or be empty.
[[nodiscard]] Result<PushResult> export_layout(const ExportOptions& options);
// What `push` would write, without writing it: the digests follow from the file.
[[nodiscard]] Result<PushResult> describe(const std::string& file, ShapeKind shape);

}  // namespace mlc::registry
