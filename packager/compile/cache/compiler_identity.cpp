// Which compiler this is, to the bit: the linker gives every program and library an id that follows from its bytes.
#include <elf.h>
#include <link.h>

#include <cstring>

#include "packager/compile/cache/code_cache.h"
#include "signing/hash_tree.h"

namespace mlc::compile {
namespace {

struct Identity {
  std::string text = "mlc " MLC_VERSION;
  size_t objects = 0;
  bool program_has_id = false;
};

// The descriptor of the GNU build id among these notes, in hexadecimal; empty if there is none.
std::string build_id(const std::byte* notes, size_t size) {
  const auto padded = [](size_t n) { return (n + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const size_t name = sizeof header, data = name + padded(header.n_namesz), next = data + padded(header.n_descsz);
    if (next > size) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0)
      return to_hex(sha256(Bytes(notes + data, header.n_descsz)));
    notes += next;
    size -= next;
  }
  return {};
}

int add_object(struct dl_phdr_info* info, size_t, void* out) {
  Identity& identity = *static_cast<Identity*>(out);
  const bool is_program = identity.objects++ == 0;
  std::string id;
  for (ElfW(Half) k = 0; k < info->dlpi_phnum && id.empty(); ++k) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[k];
    if (segment.p_type == PT_NOTE && segment.p_align <= 4)
      id = build_id(reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  if (is_program) identity.program_has_id = !id.empty();
  identity.text += "\n" + std::string(is_program ? "" : info->dlpi_name) + " " + id;
  return 0;
}

}  // namespace

const std::string& compiler_identity() {
  static const std::string identity = [] {
    Identity found;
    ::dl_iterate_phdr(add_object, &found);
    return found.program_has_id ? found.text : std::string();
  }();
  return identity;
}

}  // namespace mlc::compile
