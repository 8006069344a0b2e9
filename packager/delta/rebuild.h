// Makes the bytes of the new file, part by part.
#pragma once

#include <functional>
#include <vector>

#include "packager/delta/delta.h"

namespace mlc::delta {

struct Inputs {
  // Stored bytes of the delta, in order: exactly so many.
  std::function<Result<std::vector<std::byte>>(uint32_t length)> next;
  // Bytes of the container that is there. Any source may be asked for: one that it does not have is Malformed, one that was left out of
  // this copy NotFound.
  std::function<Result<std::vector<std::byte>>(const Source& source)> there;
};

// Delivers delta.size bytes. BadSignature if they are not those that the delta is of.
[[nodiscard]] Status rebuild(const Delta& delta, const Inputs& inputs, const std::function<Status(Bytes)>& sink);

}  // namespace mlc::delta
