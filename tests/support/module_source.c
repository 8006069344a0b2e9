/* A small module for the loader's tests, compiled by clang and linked by ld.lld the way the packager links: kernels
 * that show whether tiles, buffers, scalars, scratch and relocated data arrive as they should. */
#include "schema/module_abi.h"

#define EXPORT __attribute__((visibility("default")))

/* y[i] = a * x[i] + i, a tile is 16 floats */
static int32_t scale(const MlrunLaunch* l, uint32_t begin, uint32_t end) {
  const float* x = (const float*)l->buffers[0];
  float* y = (float*)l->buffers[1];
  const uint64_t n = l->lengths[1] / 4;
  for (uint64_t i = begin * 16ull; i < end * 16ull && i < n; ++i) y[i] = (float)l->scalars[0] * x[i] + (float)i;
  return MLRUN_FAULT_NONE;
}

/* writes its worker number through scratch */
static int32_t who(const MlrunLaunch* l, uint32_t begin, uint32_t end) {
  volatile uint32_t* scratch = (volatile uint32_t*)l->scratch;
  uint32_t* out = (uint32_t*)l->buffers[0];
  for (uint32_t i = begin; i < end; ++i) {
    scratch[i % 16] = l->worker + 1;
    out[i] = scratch[i % 16];
  }
  return MLRUN_FAULT_NONE;
}

static int32_t fails(const MlrunLaunch* l, uint32_t begin, uint32_t end) {
  (void)l, (void)begin, (void)end;
  return MLRUN_FAULT_INDEX;
}

/* a table of pointers needs relocations, and lands in RELRO */
static const MlrunEntry kEntries[] = {{0, 0, 0, scale}, {1, 0, 64, who}, {2, 0, 0, fails}};
static const MlrunModule kModule = {MLRUN_MODULE_MAGIC, MLRUN_MODULE_ABI, 3, sizeof(MlrunEntry), kEntries};

EXPORT const MlrunModule* mlrun_query(uint32_t max_abi, const MlrunHost* host) {
  return max_abi >= MLRUN_MODULE_ABI && host->size >= sizeof(MlrunHost) ? &kModule : 0;
}
