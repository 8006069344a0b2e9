// The checked description of a module: everything that mapping needs, with every range already known to be good.
//
// A small subset of ELF is accepted (spec: hardware, module format) and everything else is refused, from the file's bytes
// alone and before anything is mapped: ELF64 shared object for this machine, position-independent, no imports, no
// constructors, no thread-local data, only RELATIVE relocations into writable data, no page both writable and
// executable, one exported function. Sections are not read.
#pragma once

#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "runtime/compatible.h"

namespace mlc::elf {

struct Segment {
  uint64_t vaddr = 0;     // relative to ElfImage::origin
  uint64_t mem_len = 0;   // >= file_len; zeros behind the file's bytes
  uint64_t offset = 0;    // in the file
  uint64_t file_len = 0;
  bool writable = false;
  bool executable = false;
  bool relro = false;     // read-only after relocation
};

// "Write base + addend to base + offset"; both relative to ElfImage::origin, the target lies in a writable segment.
struct Relocation {
  uint64_t offset = 0;
  uint64_t addend = 0;
};

struct ElfImage {
  uint64_t span = 0;  // bytes of address space from the first page to the end of the last segment
  std::vector<Segment> segments;      // ascending, disjoint in pages of the host
  std::vector<Relocation> relocations;
  uint64_t query = 0;                 // address of mlrun_query, in an executable segment
  bool bti = false;                   // carries the AArch64 note that its indirect targets are marked
};

// Malformed, with the rule that was broken.
Result<ElfImage> parse_image(Bytes file, Machine machine, uint64_t page_size);

}  // namespace mlc::elf
