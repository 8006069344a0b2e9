#include "targets/module_elf.h"

#include <elf.h>

#include <cstring>

#include "base/checked.h"

namespace mlc::targets {

namespace {

template <class T>
bool read_at(std::span<const std::byte> bytes, uint64_t offset, T& out) {
  if (!range_within(offset, sizeof(T), bytes.size())) return false;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return true;
}

Status broken(std::string what) { return Status(Code::Malformed, "not a module: " + std::move(what)); }

}  // namespace

Result<ModuleElf> read_module_elf(std::span<const std::byte> module, Machine machine) {
  Elf64_Ehdr header;
  if (!read_at(module, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    return broken("no 64-bit little-endian ELF");
  const auto expected = static_cast<uint16_t>(machine);  // numbered as in ELF
  if (header.e_machine != expected)
    return broken("machine " + std::to_string(header.e_machine) + ", expected " + std::to_string(expected));
  if (header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr)) return broken("not a shared object");
  ModuleElf out;
  for (unsigned k = 0; k < header.e_phnum; ++k) {
    Elf64_Phdr segment;
    if (!read_at(module, header.e_phoff + k * sizeof(Elf64_Phdr), segment)) return broken("program headers cut off");
    if (segment.p_type == PT_TLS || segment.p_type == PT_INTERP) return broken("has thread-local data or an interpreter");
    if (segment.p_type == PT_DYNAMIC) {
      Elf64_Dyn tag;
      for (uint64_t at = 0; at + sizeof(tag) <= segment.p_filesz; at += sizeof(tag)) {
        if (!read_at(module, segment.p_offset + at, tag)) return broken("dynamic section cut off");
        if (tag.d_tag == DT_NULL) break;
        switch (tag.d_tag) {
          case DT_NEEDED: case DT_INIT: case DT_FINI: case DT_INIT_ARRAY: case DT_FINI_ARRAY: case DT_PREINIT_ARRAY:
          case DT_JMPREL: case DT_TEXTREL:
            return broken("dynamic tag " + std::to_string(tag.d_tag) + " (an import, a constructor or code relocations)");
          default: break;
        }
      }
    }
    if (segment.p_type != PT_LOAD) continue;
    if (!range_within(segment.p_offset, segment.p_filesz, module.size())) return broken("segment cut off");
    if (!(segment.p_flags & PF_X)) continue;
    if (segment.p_flags & PF_W) return broken("a segment is writable and executable");
    if (segment.p_memsz != segment.p_filesz) return broken("executable memory that the file does not hold");
    out.code.push_back({module.subspan(segment.p_offset, segment.p_filesz), segment.p_vaddr});
  }
  return out;
}

}  // namespace mlc::targets
