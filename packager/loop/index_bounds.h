// Between which extents an index of a kernel lies: bounds over its scalars, by what loops, lets and locals are known to be.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "packager/ir/context.h"

namespace mlc::loop {

inline constexpr ir::Type kIndex{DType::I64, 1};

class IndexBounds {
 public:
  explicit IndexBounds(ir::Context& ctx) : ctx_(ctx) {}

  // Bounds that are not known are null, here and below.
  struct Range {
    const ir::Expr *lo = nullptr, *hi = nullptr;
  };
  void bind(const ir::Expr* var, Range range) { ranges_[var] = range; }
  // A variable that changes: nothing that is made of it stays what it is. To be told before any let.
  void declare_local(const ir::Expr* var) { locals_.insert(var); }
  // A name of `value`, which is an i64.
  void let(const ir::Expr* var, const ir::Expr* value);

  const ir::Expr* upper(const ir::Expr* e) { return bound(in_full(e), Side::Above, 0); }
  const ir::Expr* lower(const ir::Expr* e) { return bound(in_full(e), Side::Below, 0); }
  Range range(const ir::Expr* e) { return {lower(e), upper(e)}; }

 private:
  enum class Side : bool { Below, Above };
  static Side other(Side side) { return side == Side::Above ? Side::Below : Side::Above; }

  const ir::Expr* in_full(const ir::Expr* e);
  const ir::Expr* bound(const ir::Expr* e, Side side, int depth);
  const ir::Expr* linear(const ir::Expr* e, Side side, int depth);
  const ir::Expr* number(const ir::Expr* e, Side side);
  const ir::Expr* between(const ir::Expr* a, const ir::Expr* b, ir::Op op, Side side);

  ir::Context& ctx_;
  std::unordered_map<const ir::Expr*, Range> ranges_;
  std::unordered_map<const ir::Expr*, const ir::Expr*> values_;  // of lets, in full
  std::unordered_set<const ir::Expr*> locals_;
};

}  // namespace mlc::loop
