// Runs kernels of a module on the machine it was made for, usually under qemu-user: built statically by the tests with a
// cross compiler, so it shares no code with the loaders.
//
//   cross_runner MODULE LAUNCHES RESULTS
//
// LAUNCHES: u32 count, then per launch u32 kernel, tile_begin, tile_end, num_buffers, num_scalars, zero, u64 scratch
// bytes, per buffer u64 length and its bytes, then the scalars. RESULTS: per launch i32 code and all buffers' bytes.
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "schema/module_abi.h"

namespace {

char* file_bytes(const char* path, size_t* size) {
  FILE* f = fopen(path, "rb");
  if (!f) return nullptr;
  fseek(f, 0, SEEK_END);
  *size = static_cast<size_t>(ftell(f));
  rewind(f);
  char* data = static_cast<char*>(malloc(*size + 1));
  if (fread(data, 1, *size, f) != *size) return nullptr;
  fclose(f);
  return data;
}

MlrunQuery load(const char* file) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file);
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(file + header->e_phoff);
  size_t span = 0;
  for (int k = 0; k < header->e_phnum; ++k)
    if (segments[k].p_type == PT_LOAD && segments[k].p_vaddr + segments[k].p_memsz > span)
      span = segments[k].p_vaddr + segments[k].p_memsz;
  char* base = static_cast<char*>(mmap(nullptr, span, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) return nullptr;
  const Elf64_Dyn* dynamic = nullptr;
  for (int k = 0; k < header->e_phnum; ++k) {
    if (segments[k].p_type == PT_LOAD) memcpy(base + segments[k].p_vaddr, file + segments[k].p_offset, segments[k].p_filesz);
    if (segments[k].p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const Elf64_Dyn*>(base + segments[k].p_vaddr);
  }
  const Elf64_Rela* relocations = nullptr;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;
  size_t num_relocations = 0;
  for (; dynamic && dynamic->d_tag != DT_NULL; ++dynamic) {
    char* at = base + dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_RELA) relocations = reinterpret_cast<const Elf64_Rela*>(at);
    if (dynamic->d_tag == DT_RELASZ) num_relocations = dynamic->d_un.d_val / sizeof(Elf64_Rela);
    if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym*>(at);
    if (dynamic->d_tag == DT_STRTAB) names = at;
    if (dynamic->d_tag == DT_HASH) hash = reinterpret_cast<const uint32_t*>(at);
  }
  for (size_t k = 0; k < num_relocations; ++k) {
    char* value = base + relocations[k].r_addend;
    memcpy(base + relocations[k].r_offset, &value, sizeof value);
  }
  __builtin___clear_cache(base, base + span);
  for (uint32_t k = 0; hash && symbols && k < hash[1]; ++k)
    if (strcmp(names + symbols[k].st_name, MLRUN_QUERY_SYMBOL) == 0)
      return reinterpret_cast<MlrunQuery>(base + symbols[k].st_value);
  return nullptr;
}

template <class T>
T take(const char*& in) {
  T v;
  memcpy(&v, in, sizeof v);
  in += sizeof v;
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  size_t size = 0;
  const char* module_file = file_bytes(argv[1], &size);
  const char* in = file_bytes(argv[2], &size);
  FILE* out = fopen(argv[3], "wb");
  if (!module_file || !in || !out) return 3;
  const MlrunQuery query = load(module_file);
  const MlrunHost host = {MLRUN_MODULE_ABI, sizeof(MlrunHost), 0, 0};
  const MlrunModule* module = query ? query(MLRUN_MODULE_ABI, &host) : nullptr;
  if (!module || module->magic != MLRUN_MODULE_MAGIC) return 4;
  const uint32_t count = take<uint32_t>(in);
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t kernel = take<uint32_t>(in), begin = take<uint32_t>(in), end = take<uint32_t>(in);
    const uint32_t num_buffers = take<uint32_t>(in), num_scalars = take<uint32_t>(in);
    take<uint32_t>(in);
    const uint64_t scratch_bytes = take<uint64_t>(in);
    void* buffers[16];
    uint64_t lengths[16];
    int64_t scalars[16];
    if (num_buffers > 16 || num_scalars > 16 || kernel >= module->entry_count) return 5;
    for (uint32_t k = 0; k < num_buffers; ++k) {
      lengths[k] = take<uint64_t>(in);
      buffers[k] = aligned_alloc(64, (lengths[k] + 127) & ~uint64_t{63});
      memcpy(buffers[k], in, lengths[k]);
      in += lengths[k];
    }
    for (uint32_t k = 0; k < num_scalars; ++k) scalars[k] = take<int64_t>(in);
    void* scratch = aligned_alloc(64, (scratch_bytes + 127) & ~uint64_t{63});
    const MlrunLaunch launch = {buffers, lengths, scalars, scratch, 0, 1};
    const int32_t code = module->entries[kernel].run(&launch, begin, end);
    fwrite(&code, 4, 1, out);
    for (uint32_t k = 0; k < num_buffers; ++k) {
      fwrite(buffers[k], 1, lengths[k], out);
      free(buffers[k]);
    }
    free(scratch);
  }
  return fclose(out) == 0 ? 0 : 6;
}
