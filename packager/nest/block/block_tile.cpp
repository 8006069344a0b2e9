#include "packager/nest/block/block_tile.h"

namespace mlc::nest {
namespace {

namespace narrow {
#define MLC_TILE_TARGET
#define MLC_TILE_BYTES 16
#include "packager/nest/block/block_tile_body.inc"
#undef MLC_TILE_TARGET
#undef MLC_TILE_BYTES
}  // namespace narrow

#if defined(__x86_64__)
namespace wide {
#define MLC_TILE_TARGET __attribute__((target("avx2")))
#define MLC_TILE_BYTES 32
#include "packager/nest/block/block_tile_body.inc"
#undef MLC_TILE_TARGET
#undef MLC_TILE_BYTES
}  // namespace wide

bool has_wide() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2");
}
#endif

}  // namespace

template <class T>
void add_tile(const Tile<T>& tile) {
#if defined(__x86_64__)
  static const bool is_wide = has_wide();
  if (is_wide) return wide::add_tile(tile);
#endif
  narrow::add_tile(tile);
}

template void add_tile<float>(const Tile<float>&);
template void add_tile<double>(const Tile<double>&);
template void add_tile<uint32_t>(const Tile<uint32_t>&);
template void add_tile<uint64_t>(const Tile<uint64_t>&);

}  // namespace mlc::nest
