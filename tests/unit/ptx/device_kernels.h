// Kernels of the CPU targets' tests as kernels for devices: the same statements, each element in a lane of its own.
#pragma once

#include "tests/unit/targets/random_kernel.h"

namespace mlc::testing {

inline constexpr int64_t kBlockLanes = 8, kBlocks = kGroups / kBlockLanes;

// for tile: body   becomes   for t: lanes l: let tile = t * kBlockLanes + l; body
inline void spread_over_lanes(Pool& p, loop::Kernel& k) {
  loop::StmtPtr loop = std::move(k.body[0]);
  k.body.clear();
  const Expr *t = p.var(), *lane = p.var();
  std::vector<loop::StmtPtr> inner = seq(define(loop::StmtKind::Let, loop->var, p.add(p.mul(t, p.integer(kBlockLanes)), lane)));
  for (loop::StmtPtr& s : loop->body) inner.push_back(std::move(s));
  k.lanes = kBlockLanes;
  k.body.push_back(for_(t, k.tile_begin, k.tile_end, 1, seq(for_(lane, p.integer(0), p.integer(kBlockLanes), 1, std::move(inner), loop::ForKind::Lanes))));
}

// A block of one lane does all of a tile.
inline void do_in_one_lane(Pool& p, loop::Kernel& k) {
  const Expr* lane = p.var();
  k.lanes = 1;
  k.body[0]->body = seq(for_(lane, p.integer(0), p.integer(1), 1, std::move(k.body[0]->body), loop::ForKind::Lanes));
  for (loop::LocalArray& local : k.locals) local.space = loop::Space::Shared;
}

}  // namespace mlc::testing
