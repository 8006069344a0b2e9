// Puts a checked image into memory with its final rights.
#pragma once

#include "base/status.h"
#include "loaders/elf/elf_image.h"
#include "runtime/memory/code_memory.h"

namespace mlc::elf {

// `file` is what the image was parsed from. Nothing of the module has run when this returns.
Result<CodeMemory> map_image(const ElfImage& image, Bytes file, const HostFacts& host);

}  // namespace mlc::elf
