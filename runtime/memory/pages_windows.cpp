#include <windows.h>

#include "runtime/memory/pages.h"

namespace mlc {

// Large pages are for those whom an administrator gave the right to lock memory.
void* take_pages(uint64_t room) { return VirtualAlloc(nullptr, room, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void give_pages_back(void* pages, uint64_t) { VirtualFree(pages, 0, MEM_RELEASE); }

}  // namespace mlc
