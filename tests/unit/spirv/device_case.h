// Kernels of processors as kernels of devices: the same body, its tiles spread over blocks of lanes.
#pragma once

#include <doctest/doctest.h>

#include "targets/spirv/kernel_emitter.h"
#include "tests/support/spirv/launch.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc::testing {

inline constexpr uint32_t kBlock = 8;

// `k` has a loop over its tiles as its last statement; what stands before it goes into the lane, and what was a tile becomes a lane.
inline void spread(Pool& p, loop::Kernel& k, uint32_t lanes = kBlock) {
  const Expr *tile = p.var(), *lane = p.var(), *old = k.body.back()->var;
  std::vector<loop::StmtPtr> body = std::move(k.body.back()->body);
  k.body.pop_back();
  body.insert(body.begin(), std::make_move_iterator(k.body.begin()), std::make_move_iterator(k.body.end()));
  body.insert(body.begin(), define(loop::StmtKind::Let, old, p.add(p.mul(tile, p.integer(lanes)), lane)));
  k.body.clear();
  k.body.push_back(for_(tile, k.tile_begin, k.tile_end, 1,
                        seq(for_(lane, p.integer(0), p.integer(lanes), 1, std::move(body), loop::ForKind::Lanes))));
  k.lanes = lanes;
}

inline std::string element_text(const std::byte* data, int64_t at, DType t) {
  const Lane l = read_element(data + at * bytes_of(t), t);
  return is_float(t) ? std::to_string(l.f) : std::to_string(l.i);
}

}  // namespace mlc::testing
