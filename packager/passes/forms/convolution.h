// Plain convolutions along one or two axes, as forms see them.
#pragma once

#include <vector>

#include "packager/passes/util.h"

namespace mlc::passes {

// A map whose value has one sum, over channels c and a window u, v: y[.., m, p, q] = around(sum(x[.., c, s*p + u, t*q + v] * w[m, c, u, v])), up to what
// is added to s*p + u and t*q + v, with f32 weights that are constant. Channels are innermost in x and y.
struct Convolution {
  // Along which the window slides.
  struct Axis {
    const ir::Dim *out = nullptr, *tap = nullptr;  // of the result; of the weights, of constant extent
    size_t number = 0;                             // of x
    int64_t stride = 1;
  };

  size_t statement = 0;
  const nest::Nest* nest = nullptr;
  const nest::Write* write = nullptr;
  const Expr *fold = nullptr, *x = nullptr, *w = nullptr;
  std::vector<const ir::Dim*> batch;            // map dims but those that follow
  const ir::Dim *m = nullptr, *c = nullptr;     // channels of the result, of the input
  std::vector<Axis> axes;                       // one or two
  std::vector<const Expr*> conditions;          // conjuncts of the sum's, each about one axis
};

// Whether statement number `statement` is one of dilation 1 and one group.
bool find_convolution(ir::Context& ctx, const nest::Function& f, size_t statement, Convolution& out);

}  // namespace mlc::passes
