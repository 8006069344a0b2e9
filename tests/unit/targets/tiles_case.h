// A kernel of loop::StmtKind::Tiles.
#pragma once

#include <string>

#include "packager/ir/context.h"
#include "packager/loop/build.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc::testing {

inline constexpr int64_t kTileTurns = 3, kTileStride = 200, kTileRows = 31, kTileSums = 256;

// out[t] = the sums of tiles 0 and 3: rows t .. t+15 and t+3 .. t+18 of a, `kTileTurns` turns long, by two panels of b. `bytes`: of a row.
// `other`: bytes that rows of tiles have before, which nothing is multiplied by; 0: none.
inline loop::Kernel tiles_kernel(ir::Context& ctx, DType a, DType b, int64_t bytes, int64_t other = 0) {
  loop::Kernel k;
  k.name = "tiles." + std::string(name_of(a)) + "." + std::string(name_of(b)) + "." + std::to_string(bytes);
  k.params = {{"a", a, false, 0, loop::Role::Array, nullptr}, {"b", b, false, 1, loop::Role::Array, nullptr}, {"out", a == DType::BF16 ? DType::F32 : DType::I32, true, 2, loop::Role::Array, nullptr}};
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  k.tiles = ctx.integer(kGroups);
  loop::Builder build(ctx, k.body);
  const auto n = [&](int64_t v) { return ctx.integer(v); };
  const int64_t depth = bytes / bytes_of(a);
  build.with_for(k.tile_begin, k.tile_end, 1, [&](const ir::Expr* t) {
    if (other) build.begin_tiles(other);
    build.begin_tiles(bytes);
    build.with_for(n(0), n(kTileTurns), 1, [&](const ir::Expr* turn) {
      const auto rows = [&](int64_t first) {
        return loop::vec_load(ctx, 0, {a, 1}, ctx.add(ctx.mul(ctx.add(t, n(first)), n(kTileStride)), ctx.mul(turn, n(depth))));
      };
      const auto panel = [&](int64_t p) { return loop::vec_load(ctx, 1, {b, 1}, ctx.add(n(p * kTileTurns * 16 * depth), ctx.mul(turn, n(16 * depth)))); };
      const ir::Expr *first = rows(0), *second = panel(1);
      build.tile_dot(0, bytes, first, n(kTileStride), panel(0));
      build.tile_dot(3, bytes, rows(3), n(kTileStride), second);
      build.tile_dot(1, bytes, first, n(kTileStride), second);
    });
    build.store_tile(0, 2, ctx.mul(t, n(2 * kTileSums)));
    build.store_tile(3, 2, ctx.add(ctx.mul(t, n(2 * kTileSums)), n(kTileSums)));
  });
  return k;
}

}  // namespace mlc::testing
