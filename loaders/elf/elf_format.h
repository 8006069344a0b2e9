// The structures and numbers of ELF64 that modules use, spelled out so that every host compiles the same reader.
#pragma once

#include <cstdint>

namespace mlc::elf {

struct FileHeader {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, phoff, shoff;
  uint32_t flags;
  uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
static_assert(sizeof(FileHeader) == 64);

struct ProgramHeader {
  uint32_t type, flags;
  uint64_t offset, vaddr, paddr, filesz, memsz, align;
};
static_assert(sizeof(ProgramHeader) == 56);

struct Dynamic {
  int64_t tag;
  uint64_t value;
};

struct Rela {
  uint64_t offset, info;
  int64_t addend;
};

struct Symbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t shndx;
  uint64_t value, size;
};
static_assert(sizeof(Symbol) == 24);

inline constexpr uint16_t kTypeDyn = 3;
inline constexpr uint32_t kExecute = 1, kWrite = 2, kRead = 4;

enum : uint32_t {
  kPtNull = 0, kPtLoad = 1, kPtDynamic = 2, kPtNote = 4, kPtPhdr = 6,
  kPtGnuStack = 0x6474e551, kPtGnuRelro = 0x6474e552, kPtGnuProperty = 0x6474e553,
  kPtRiscvAttributes = 0x70000003,
};

enum : int64_t {
  kDtNull = 0, kDtHash = 4, kDtStrtab = 5, kDtSymtab = 6, kDtRela = 7, kDtRelasz = 8, kDtRelaent = 9, kDtStrsz = 10,
  kDtSyment = 11, kDtFlags = 30, kDtRelacount = 0x6ffffff9, kDtFlags1 = 0x6ffffffb,
  kDtAarch64BtiPlt = 0x70000001, kDtAarch64PacPlt = 0x70000003,
};
inline constexpr uint64_t kDfSymbolic = 2, kDfBindNow = 8, kDf1Now = 1;

inline constexpr uint8_t kSttNotype = 0, kSttObject = 1, kSttFunc = 2, kSttSection = 3;
inline constexpr uint8_t kStbGlobal = 1;

inline constexpr uint32_t kNoteGnuPropertyType = 5;        // NT_GNU_PROPERTY_TYPE_0
inline constexpr uint32_t kPropertyAarch64Feature1 = 0xc0000000;
inline constexpr uint32_t kFeature1Bti = 1;

inline constexpr uint32_t kRiscvRvc = 1, kRiscvFloatAbiDouble = 4;
inline constexpr uint32_t kLoongArchDoubleObjectsV1 = 0x43;  // double-float ABI; relocations of version 1

}  // namespace mlc::elf
