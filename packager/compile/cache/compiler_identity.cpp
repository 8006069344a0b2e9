// Which compiler this is, to the bit: the linker gives every program and library an id that follows from its bytes. Of the code
// generator there is a digest of the archives that it was linked from.
#include <elf.h>
#include <link.h>

#include <cstring>

#include "packager/compile/cache/code_cache.h"
#include "signing/hash_tree.h"

namespace mlc::compile {

extern const char kCodeGenerator[];  // code_generator.cmake

namespace {

struct Loaded {
  std::string program;    // its build id; empty: it has none
  std::string libraries;  // names and build ids
  bool has_llvm = false;  // among them, with a build id
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
  auto& [objects, loaded] = *static_cast<std::pair<size_t, Loaded>*>(out);
  const bool is_program = objects++ == 0;
  std::string id;
  for (ElfW(Half) k = 0; k < info->dlpi_phnum && id.empty(); ++k) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[k];
    if (segment.p_type == PT_NOTE && segment.p_align <= 4)
      id = build_id(reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  if (is_program) {
    loaded.program = id;
    return 0;
  }
  const std::string name = info->dlpi_name;
  loaded.libraries += "\n" + name + " " + id;
  loaded.has_llvm = loaded.has_llvm || (!id.empty() && name.find("libLLVM") != std::string::npos);
  return 0;
}

const Loaded& loaded_objects() {
  static const Loaded loaded = [] {
    std::pair<size_t, Loaded> found;
    ::dl_iterate_phdr(add_object, &found);
    return std::move(found.second);
  }();
  return loaded;
}

}  // namespace

const std::string& compiler_identity() {
  static const std::string identity = [] {
    const Loaded& loaded = loaded_objects();
    return loaded.program.empty() ? std::string() : "mlc " MLC_VERSION "\n" + loaded.program + loaded.libraries;
  }();
  return identity;
}

const std::string& code_generator_identity() {
  static const std::string identity = [] {
    const Loaded& loaded = loaded_objects();
    return loaded.has_llvm ? kCodeGenerator + loaded.libraries : compiler_identity();
  }();
  return identity;
}

}  // namespace mlc::compile
