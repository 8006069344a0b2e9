#include <cstdlib>

#include "runtime/io/aligned_memory.h"

namespace mlc::io {

void* allocate_aligned(size_t alignment, size_t bytes) { return std::aligned_alloc(alignment, bytes); }
void free_aligned(void* memory) { std::free(memory); }

}  // namespace mlc::io
