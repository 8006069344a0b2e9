// What a Container holds, and the maker of verified bytes. Private to runtime/container.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/container/container.h"
#include "runtime/container/header.h"
#include "runtime/container/segment_store.h"
#include "runtime/container/source.h"
#include "runtime/verified.h"

namespace mlc {

// Only here may bytes be declared verified: after SegmentStore has hashed them.
class VerifiedBytesMaker {
 public:
  static VerifiedBytes make(AlignedBlock bytes, std::string name) {
    return VerifiedBytes(std::move(bytes), std::move(name));
  }
};

}  // namespace mlc

namespace mlc::container {

struct AuthenticatedFile::Parts {
  std::unique_ptr<Source> source;
  Header header;
  std::vector<std::byte> manifest;
  std::optional<signing::Authentication> authentication;  // none: a truncated file
};

struct Container::State {
  std::unique_ptr<Source> source;
  Header header;
  format::Manifest manifest;
  Digest root{};
  signing::Verdict verdict;
  std::vector<std::string> notes;
  unsigned workers = 1;
  std::vector<uint8_t> native_module;   // by segment: the module of a variant that is not portable
  std::unique_ptr<SegmentStore> store;  // refers to source and manifest
};

}  // namespace mlc::container
