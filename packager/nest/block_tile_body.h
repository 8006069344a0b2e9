// Included by block_tile.cpp for each kind of vectors (MLC_TILE_TARGET, MLC_TILE_BYTES), within a namespace of its own; hence without a guard.
// Sums have names, not numbers: of an array the compiler may make memory.

template <class T>
MLC_TILE_TARGET void add_tile(const Tile<T>& tile) {
  // May lie anywhere, and is an array of T.
  typedef T V __attribute__((vector_size(MLC_TILE_BYTES), aligned(alignof(T)), may_alias));
  constexpr int64_t kLanes = MLC_TILE_BYTES / static_cast<int64_t>(sizeof(T)), kTwo = 2 * kLanes;
  static_assert(kTileRows == 4 && kUnit<T> % kTwo == 0);
  for (int64_t lane = 0; lane < kUnit<T>; lane += kTwo) {
    T* const row = tile.total + lane;
    const auto at = [&](int64_t r, int64_t half) { return reinterpret_cast<V*>(row + r * tile.total_row + half * kLanes); };
    V a0 = *at(0, 0), a1 = *at(0, 1), b0 = *at(1, 0), b1 = *at(1, 1), c0 = *at(2, 0), c1 = *at(2, 1), d0 = *at(3, 0), d1 = *at(3, 1);
    const T *x = tile.x + lane, *ya = tile.y[0], *yb = tile.y[1], *yc = tile.y[2], *yd = tile.y[3];
    for (int64_t k = 0; k < tile.steps; ++k, x += kUnit<T>) {
      const V x0 = *reinterpret_cast<const V*>(x), x1 = *reinterpret_cast<const V*>(x + kLanes);
      const int64_t step = k * tile.y_step;
      a0 += x0 * ya[step], a1 += x1 * ya[step];
      b0 += x0 * yb[step], b1 += x1 * yb[step];
      c0 += x0 * yc[step], c1 += x1 * yc[step];
      d0 += x0 * yd[step], d1 += x1 * yd[step];
    }
    *at(0, 0) = a0, *at(0, 1) = a1, *at(1, 0) = b0, *at(1, 1) = b1, *at(2, 0) = c0, *at(2, 1) = c1, *at(3, 0) = d0, *at(3, 1) = d1;
  }
}
