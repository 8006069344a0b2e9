// libs: mlc_loader_elf
// Any bytes: refused with a message, or described by ranges that all lie inside the file and the module, and then
// mapped without a fault. Nothing of the module is executed.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "loaders/elf/elf_image.h"
#include "loaders/elf/elf_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  const Bytes file = std::as_bytes(std::span(data, size));
  for (Machine machine : kMachines) {
    auto image = elf::parse_image(file, machine, 4096);
    if (!image) {
      if (image.status().message.empty()) std::abort();
      continue;
    }
    for (const elf::Segment& s : image->segments)
      if (!range_within(s.offset, s.file_len, size) || !range_within(s.vaddr, s.mem_len, image->span) ||
          (s.writable && s.executable))
        std::abort();
    if (image->span <= (uint64_t{16} << 20)) {
      HostFacts host;
      host.machine = machine;
      host.code_pages = CodePages::Anonymous;
      if (!elf::map_image(*image, file, host)) std::abort();
    }
  }
  return 0;
}
