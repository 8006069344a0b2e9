// What nests of a group pass on, as values: a load of a local array is the expression that was written there.
#pragma once

#include "packager/ir/context.h"
#include "packager/nest/facts/group.h"
#include "packager/nest/nest.h"

namespace mlc::lower {

class GroupValues {
 public:
  // Of nests first .. last. All must outlive it.
  GroupValues(ir::Context& ctx, const nest::Group& group, size_t first, size_t last) : ctx_(ctx), group_(group), first_(first), last_(last) {}

  // Whether what the nests before the last one write is read by these nests alone, and can be had as a value.
  bool are_private() const;
  // Of a load of what one of them wrote: its value there. Null for any other load, and where there is no such expression.
  const ir::Expr* written_at(const ir::Expr* load) const;
  // `e` without loads of what they wrote; null, if there is no such value or it would be too long.
  const ir::Expr* resolved(const ir::Expr* e) const;

 private:
  const nest::Nest* writer_of(uint32_t array) const;

  ir::Context& ctx_;
  const nest::Group& group_;
  const size_t first_, last_;
};

}  // namespace mlc::lower
