// Divisions by extents that the run decides: these may be 0, but not where a nest has points.
#pragma once

#include "packager/passes/util.h"

namespace mlc::passes {

// The expressions of one nest with symbols and dims of which the simplifier knows that they are positive.
class Positive {
 public:
  // With `f`, whose nest it is, also of extents of what every point reads.
  Positive(ir::Context& ctx, const nest::Nest& nest, const nest::Function* f = nullptr);
  const Expr* there(const Expr* e) const { return ctx_.substitute(e, there_); }
  const Expr* back(const Expr* e) const { return ctx_.substitute(e, back_); }
  const Expr* extent_back(const Expr* e) const { return ctx_.substitute(e, extents_back_); }

 private:
  void add_read(const nest::Nest& nest, const nest::Function& f);

  ir::Context& ctx_;
  std::unordered_map<const Expr*, const Expr*> there_, back_, extents_back_;
};

// Whether an index of the statement divides by something that is no number.
bool divides_by_extents(const nest::Statement& s);

}  // namespace mlc::passes
