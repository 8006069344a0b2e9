// Native modules: the ELF subset of elf_image.h, mapped by ourselves. No dlopen, no temporary file, no constructor.
#pragma once

#include <memory>

#include "runtime/loader.h"

namespace mlc::elf {

std::unique_ptr<Loader> make_elf_loader();

}  // namespace mlc::elf
