// Memory of the C library that begins at a multiple of an alignment.
#pragma once

#include <cstddef>

namespace mlc::io {

// `bytes` is a multiple of `alignment`, a power of two. Null: there is none.
[[nodiscard]] void* allocate_aligned(size_t alignment, size_t bytes);
void free_aligned(void* memory);  // of allocate_aligned, or null

}  // namespace mlc::io
