// Plain 2-D convolutions, as forms see them.
#pragma once

#include <array>

#include "packager/passes/util.h"

namespace mlc::passes {

// A map whose value has one sum, over channels c and a window u, v: y[.., m, p, q] = around(sum(x[.., c, p + u, q + v] * w[m, c, u, v])), up to what is
// added to p + u and q + v, with f32 weights that are constant. Channels lie innermost in x and y.
struct Convolution {
  size_t statement = 0;
  const nest::Nest* nest = nullptr;
  const nest::Write* write = nullptr;
  const Expr *fold = nullptr, *x = nullptr, *w = nullptr;
  std::vector<const ir::Dim*> batch;            // map dims but those that follow
  const ir::Dim *m = nullptr, *c = nullptr;     // channels of the result, of the input
  std::array<const ir::Dim*, 2> out{}, tap{};   // rows and columns: of the result, of the weights
  std::array<size_t, 2> axis{};                 // of x, along which they slide
  std::vector<const Expr*> conditions;          // conjuncts of the sum's, each about rows or about columns
};

// Whether statement number `statement` is one of stride 1, dilation 1 and one group whose window has `taps` rows and columns.
bool find_convolution(ir::Context& ctx, const nest::Function& f, size_t statement, int64_t taps, Convolution& out);

}  // namespace mlc::passes
