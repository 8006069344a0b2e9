// Runs kernels of a module on the machine it was made for, usually under qemu-user. Linked statically by the tests
// without any library: clang makes it for every machine that Linux's common numbers of system calls hold for, and it
// shares no code with the loaders.
//
//   cross_runner MODULE LAUNCHES RESULTS
//
// LAUNCHES: u32 count, then per launch u32 kernel, tile_begin, tile_end, num_buffers, num_scalars, zero, u64 scratch
// bytes, per buffer u64 length and its bytes, then the scalars. RESULTS: per launch i32 code and all buffers' bytes.
#include <stddef.h>
#include <stdint.h>

#include "schema/module_abi.h"

// The compiler makes calls of these.
extern "C" {
void* memcpy(void* to, const void* from, size_t length) {
  for (size_t k = 0; k < length; ++k) static_cast<char*>(to)[k] = static_cast<const char*>(from)[k];
  return to;
}
void* memset(void* to, int value, size_t length) {
  for (size_t k = 0; k < length; ++k) static_cast<char*>(to)[k] = static_cast<char>(value);
  return to;
}
}

namespace {

// asm-generic/unistd.h, which AArch64, RISC-V and LoongArch share.
enum : long { kOpenat = 56, kLseek = 62, kRead = 63, kWrite = 64, kExitGroup = 94, kMmap = 222 };

long call(long number, long a, long b, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#elif defined(__riscv)
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d, a4 __asm__("a4") = e, a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
#elif defined(__loongarch64)
  register long a7 __asm__("$a7") = number, a0 __asm__("$a0") = a, a1 __asm__("$a1") = b, a2 __asm__("$a2") = c;
  register long a3 __asm__("$a3") = d, a4 __asm__("$a4") = e, a5 __asm__("$a5") = f;
  __asm__ volatile("syscall 0" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "memory", "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8");
  return a0;
#endif
}

// Fresh memory, zeros; never given back. Null: there is none.
char* memory(uint64_t bytes, long rights = 3) {
  constexpr long kPrivateAnonymous = 0x22;
  const long at = call(kMmap, 0, static_cast<long>(bytes ? bytes : 1), rights, kPrivateAnonymous, -1, 0);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<char*>(at);
}

constexpr long kHere = -100;  // AT_FDCWD

char* file_bytes(const char* path) {
  const long file = call(kOpenat, kHere, reinterpret_cast<long>(path), 0);
  const long size = file < 0 ? -1 : call(kLseek, file, 0, 2);
  char* data = size < 0 || call(kLseek, file, 0, 0) != 0 ? nullptr : memory(static_cast<uint64_t>(size) + 1);
  for (long at = 0, got; data && at < size; at += got) {
    got = call(kRead, file, reinterpret_cast<long>(data + at), size - at);
    if (got <= 0) return nullptr;
  }
  return data;
}

bool write_all(long file, const void* data, uint64_t length) {
  for (uint64_t at = 0; at < length;) {
    const long put = call(kWrite, file, reinterpret_cast<long>(static_cast<const char*>(data) + at), static_cast<long>(length - at));
    if (put <= 0) return false;
    at += static_cast<uint64_t>(put);
  }
  return true;
}

// What was written as data is seen as code from here on.
void make_code_seen(char* begin, char* end) {
#if defined(__loongarch64)
  static_cast<void>(begin), static_cast<void>(end);
  __asm__ volatile("dbar 0\n ibar 0" ::: "memory");
#elif defined(__riscv)
  constexpr long kFlushIcache = 259;
  call(kFlushIcache, reinterpret_cast<long>(begin), reinterpret_cast<long>(end), 0);
#else
  for (char* line = begin; line < end; line += 16) __asm__ volatile("dc cvau, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb ish" ::: "memory");
  for (char* line = begin; line < end; line += 16) __asm__ volatile("ic ivau, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb ish\n isb" ::: "memory");
#endif
}

struct Header {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, segments, sections;
  uint32_t flags;
  uint16_t length, segment_length, num_segments;
};
struct Segment {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_length, length, align;
};
struct Dynamic {
  int64_t tag;
  uint64_t value;
};
struct Relocation {
  uint64_t offset, info;
  int64_t addend;
};
struct Symbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, length;
};
enum : uint32_t { kLoad = 1, kDynamic = 2 };
enum : int64_t { kEnd = 0, kHash = 4, kStrings = 5, kSymbols = 6, kRelocations = 7, kRelocationBytes = 8 };

bool is_equal(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

MlrunQuery load(const char* file) {
  const auto* header = reinterpret_cast<const Header*>(file);
  const auto* segments = reinterpret_cast<const Segment*>(file + header->segments);
  uint64_t span = 0;
  for (int k = 0; k < header->num_segments; ++k)
    if (segments[k].type == kLoad && segments[k].address + segments[k].length > span) span = segments[k].address + segments[k].length;
  char* base = memory(span, /*read, write, execute*/ 7);
  if (!base) return nullptr;
  const Dynamic* dynamic = nullptr;
  for (int k = 0; k < header->num_segments; ++k) {
    if (segments[k].type == kLoad) memcpy(base + segments[k].address, file + segments[k].offset, segments[k].file_length);
    if (segments[k].type == kDynamic) dynamic = reinterpret_cast<const Dynamic*>(base + segments[k].address);
  }
  const Relocation* relocations = nullptr;
  const Symbol* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;
  uint64_t num_relocations = 0;
  for (; dynamic && dynamic->tag != kEnd; ++dynamic) {
    char* at = base + dynamic->value;
    if (dynamic->tag == kRelocations) relocations = reinterpret_cast<const Relocation*>(at);
    if (dynamic->tag == kRelocationBytes) num_relocations = dynamic->value / sizeof(Relocation);
    if (dynamic->tag == kSymbols) symbols = reinterpret_cast<const Symbol*>(at);
    if (dynamic->tag == kStrings) names = at;
    if (dynamic->tag == kHash) hash = reinterpret_cast<const uint32_t*>(at);
  }
  for (uint64_t k = 0; k < num_relocations; ++k) {
    char* value = base + relocations[k].addend;
    memcpy(base + relocations[k].offset, &value, sizeof value);
  }
  make_code_seen(base, base + span);
  for (uint32_t k = 0; hash && symbols && k < hash[1]; ++k)
    if (is_equal(names + symbols[k].name, MLRUN_QUERY_SYMBOL)) return reinterpret_cast<MlrunQuery>(base + symbols[k].value);
  return nullptr;
}

template <class T>
T take(const char*& in) {
  T v;
  memcpy(&v, in, sizeof v);
  in += sizeof v;
  return v;
}

int run(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* module_file = file_bytes(argv[1]);
  const char* in = file_bytes(argv[2]);
  constexpr long kWriteCreateTruncate = 01101;
  const long out = call(kOpenat, kHere, reinterpret_cast<long>(argv[3]), kWriteCreateTruncate, 0600);
  if (!module_file || !in || out < 0) return 3;
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
      buffers[k] = memory(lengths[k] + 64);
      if (!buffers[k]) return 7;
      memcpy(buffers[k], in, lengths[k]);
      in += lengths[k];
    }
    for (uint32_t k = 0; k < num_scalars; ++k) scalars[k] = take<int64_t>(in);
    void* scratch = memory(scratch_bytes + 64);
    if (!scratch) return 7;
    const MlrunLaunch launch = {buffers, lengths, scalars, scratch, 0, 1};
    const int32_t code = module->entries[kernel].run(&launch, begin, end);
    if (!write_all(out, &code, 4)) return 6;
    for (uint32_t k = 0; k < num_buffers; ++k)
      if (!write_all(out, buffers[k], lengths[k])) return 6;
  }
  return 0;
}

}  // namespace

// The stack begins with argc and argv.
extern "C" [[noreturn]] __attribute__((used)) void begin(long* stack) {
  const int result = run(static_cast<int>(stack[0]), reinterpret_cast<char**>(stack + 1));
  for (;;) call(kExitGroup, result, 0);
}

#if defined(__aarch64__)
__asm__(".global _start\n_start: mov x0, sp\n and sp, x0, -16\n b begin\n");
#elif defined(__riscv)
__asm__(".global _start\n_start: mv a0, sp\n andi sp, sp, -16\n j begin\n");
#elif defined(__loongarch64)
__asm__(".global _start\n_start: move $a0, $sp\n bstrins.d $sp, $zero, 3, 0\n b begin\n");
#endif
