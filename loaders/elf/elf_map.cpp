#include "loaders/elf/elf_map.h"

#include <cstring>

namespace mlc::elf {

Result<CodeMemory> map_image(const ElfImage& image, Bytes file, const HostFacts& host) {
  MLC_ASSIGN(CodeMemory memory, CodeMemory::reserve(image.span, host.page_size));
  for (const Segment& s : image.segments) {
    const Bytes content = file.subspan(s.offset, s.file_len);
    if (s.executable)  // never written again: no relocation touches code
      MLC_RETURN_IF_ERROR(memory.place_code(s.vaddr, content, s.mem_len, host.code_pages, host.bti && image.bti));
    else
      MLC_RETURN_IF_ERROR(memory.place_data(s.vaddr, content, s.mem_len));
  }
  for (const Relocation& r : image.relocations) {
    const uint64_t value = reinterpret_cast<uint64_t>(memory.base()) + r.addend;
    std::memcpy(memory.base() + r.offset, &value, sizeof value);
  }
  for (const Segment& s : image.segments)
    if (!s.executable && (!s.writable || s.relro)) MLC_RETURN_IF_ERROR(memory.make_read_only(s.vaddr, s.mem_len));
  return memory;
}

}  // namespace mlc::elf
