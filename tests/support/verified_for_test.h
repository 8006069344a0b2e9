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
    auto copy = AlignedBlock::allocate(bytes.size());
    if (!copy.ok()) std::abort();
    std::copy(bytes.begin(), bytes.end(), copy->data());
    return VerifiedBytes(std::move(*copy), std::move(name));
  }
};

}  // namespace mlc
