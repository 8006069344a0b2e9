// What a file is that is not a container: the first bytes decide, never the name.
#pragma once

#include <string>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::container {

// `front` is the beginning of the file (up to 4096 bytes), `size` its length. OK if it begins as a container does;
// else Malformed with the kind of the file and what to do about it.
[[nodiscard]] Status recognise(Bytes front, uint64_t size, const std::string& name);

}  // namespace mlc::container
