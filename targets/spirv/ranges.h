// Which values index arithmetic takes: what fits in 32 bits is computed there, since devices emulate 64.
#pragma once

#include <unordered_map>

#include "packager/ir/context.h"

namespace mlc::targets::spirv {

class Ranges {
 public:
  // Of a variable, before anything that it occurs in is asked for.
  void bind(const ir::Expr* var, ir::Interval range) { vars_[var->i] = range; }
  // Of an i64, or an integer that fits in one; all of int64 where nothing is known.
  ir::Interval of(const ir::Expr* e);
  // An i64 that is equal to its low half, sign-extended.
  bool fits(const ir::Expr* e);

 private:
  ir::Interval compute(const ir::Expr* e) const;

  std::unordered_map<int64_t, ir::Interval> vars_;
  std::unordered_map<const ir::Expr*, ir::Interval> known_;
};

}  // namespace mlc::targets::spirv
