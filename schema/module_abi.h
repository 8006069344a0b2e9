/* What a module (the ELF of one variant) and the runtime agree on. C, because both sides of it are machine code.
 *
 * A module exports exactly one symbol, MLRUN_QUERY_SYMBOL, of type MlrunQuery. It imports nothing, has no constructors
 * and keeps no state. The result of the query lies in the module's read-only data and lives as long as the module.
 *
 * Contract of a kernel: "do your share of the tiles", tiles [tile_begin, tile_end) of the launch. It may be called from
 * several threads at once with disjoint ranges. Buffers are 64-byte aligned and readable up to the next multiple of 64
 * bytes beyond their length. No allocation, locks, thread-local storage, errno, I/O, callbacks or change of the
 * floating-point mode. Returns 0, or a positive fault code (below) after which the run fails with the kernel's name.
 */
#ifndef MLC_SCHEMA_MODULE_ABI_H
#define MLC_SCHEMA_MODULE_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLRUN_MODULE_MAGIC 0x314b434cu /* "LCK1" */
#define MLRUN_MODULE_ABI 1u
#define MLRUN_QUERY_SYMBOL "mlrun_query"

/* How code of x86-64 is called on every system: as System V's ABI says, on Windows too. A kernel keeps nothing below the stack pointer
 * (there is no red zone) and has at most 4096 bytes of stack per frame. */
#if defined(_WIN32) && defined(__x86_64__)
#define MLRUN_CALL __attribute__((sysv_abi))
#else
#define MLRUN_CALL
#endif

/* Fault codes of kernels. */
#define MLRUN_FAULT_NONE 0
#define MLRUN_FAULT_INDEX 1    /* a loaded index lies outside its array */
#define MLRUN_FAULT_DIVISION 2 /* integer division by zero */
#define MLRUN_FAULT_BOUND 3    /* a loop exceeded its declared bound */
#define MLRUN_FAULT_BAD_CODE 4 /* portable code that breaks its rules */
#define MLRUN_FAULT_VECTORS 5  /* vector registers of the calling thread are shorter than the code needs */

/* Facts about the host that a module may want; data only. */
typedef struct MlrunHost {
  uint32_t abi;
  uint32_t size; /* of this struct, for later growth */
  uint32_t vector_bytes;
  uint32_t reserved;
} MlrunHost;

/* The arguments of one launch, shared by all workers except scratch and worker. */
typedef struct MlrunLaunch {
  void* const* buffers;    /* in the order of the kernel's parameters */
  const uint64_t* lengths; /* bytes of each */
  const int64_t* scalars;  /* integers, in the order of the kernel's scalars, then the chunks of its cuts */
  void* scratch;           /* this worker's, scratch_bytes of the entry, 64-byte aligned, content unspecified */
  uint32_t worker;
  uint32_t workers;
} MlrunLaunch;

typedef int32_t(MLRUN_CALL* MlrunKernel)(const MlrunLaunch* launch, uint32_t tile_begin, uint32_t tile_end);

typedef struct MlrunEntry {
  uint32_t id; /* index of this entry; plans name kernels by it */
  uint32_t flags;
  uint64_t scratch_bytes;
  MlrunKernel run;
} MlrunEntry;

typedef struct MlrunModule {
  uint32_t magic;
  uint32_t abi;
  uint32_t entry_count;
  uint32_t entry_size; /* sizeof(MlrunEntry) when the module was made */
  const MlrunEntry* entries;
} MlrunModule;

typedef const MlrunModule*(MLRUN_CALL* MlrunQuery)(uint32_t max_abi, const MlrunHost* host);

#ifdef __cplusplus
}
#endif
#endif
