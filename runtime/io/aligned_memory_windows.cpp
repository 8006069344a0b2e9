#include <malloc.h>

#include "runtime/io/aligned_memory.h"

namespace mlc::io {

void* allocate_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
void free_aligned(void* memory) { _aligned_free(memory); }

}  // namespace mlc::io
