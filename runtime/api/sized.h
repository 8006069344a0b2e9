// For users of mlc.h that are written in C++: a struct of zeros that knows its size.
#pragma once

#include <cstdint>

namespace mlc {

template <class T>
T sized() {
  T out{};
  out.size = static_cast<uint32_t>(sizeof out);
  return out;
}

}  // namespace mlc
