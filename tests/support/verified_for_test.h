// Verified bytes without a container, for tests of loaders alone. Not to be linked with runtime/container, which defines
// the real maker.
#pragma once

#include <span>
#include <vector>

#include "runtime/verified.h"

namespace mlc {

class VerifiedBytesMaker {
 public:
  static VerifiedBytes make(Bytes bytes, std::string name) {
    return VerifiedBytes(std::vector<std::byte>(bytes.begin(), bytes.end()), std::move(name));
  }
};

}  // namespace mlc
