// Extents that the run decides may be 0, but not where a nest has points.
#pragma once

#include <unordered_map>

#include "packager/nest/nest.h"

namespace mlc::nest {

// The expressions of one nest with symbols and dims of which the simplifier knows that they are positive.
class Positive {
 public:
  // With `f`, whose nest it is, also of extents of what every point reads.
  Positive(ir::Context& ctx, const Nest& nest, const Function* f = nullptr);
  const ir::Expr* there(const ir::Expr* e) const { return ctx_.substitute(e, there_); }
  const ir::Expr* back(const ir::Expr* e) const { return ctx_.substitute(e, back_); }
  const ir::Expr* extent_back(const ir::Expr* e) const { return ctx_.substitute(e, extents_back_); }

 private:
  void add_read(const Nest& nest, const Function& f);

  ir::Context& ctx_;
  std::unordered_map<const ir::Expr*, const ir::Expr*> there_, back_, extents_back_;
};

}  // namespace mlc::nest
