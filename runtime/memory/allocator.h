// Functions of the application that give the memory for what grows with the data of models. Null everywhere: the system's.
#pragma once

#include <cstdint>

namespace mlc {

struct Allocator {
  // `bytes` at a multiple of `alignment`, or null. Whatever is in it.
  void* (*allocate)(void* user, uint64_t bytes, uint64_t alignment) = nullptr;
  void (*release)(void* user, void* memory, uint64_t bytes, uint64_t alignment) = nullptr;
  void* user = nullptr;
};

}  // namespace mlc
