#include "packager/ir/structure_key.h"

#include <bit>

#include "packager/ir/context.h"

namespace mlc::ir {
namespace {

// Begin items that are no numbers; numbers end with a comma.
constexpr char kNode = '(', kNull = '-', kExtent = '=';

}  // namespace

void StructureKey::number(int64_t value) { text_ += std::to_string(value) + ","; }

void StructureKey::expression(const Expr* e) {
  if (!e) {
    text_ += kNull;
    return;
  }
  const auto visit = [&](const Expr* node) {
    if (!nodes_.emplace(node, static_cast<int64_t>(nodes_.size())).second) return;
    text_ += kNode;
    number(static_cast<int64_t>(node->op)), number(static_cast<int64_t>(node->type.dtype)), number(node->type.lanes);
    switch (node->op) {
      case Op::Var: case Op::Sym: case Op::Dim: leaf_(*this, node); break;
      case Op::Const: number(is_float(node->type.dtype) ? std::bit_cast<int64_t>(node->f) : node->i); break;
      case Op::Load: number(static_cast<int64_t>(node->access)), leaf_(*this, node); break;
      case Op::Fold:
        leaf_(*this, node);
        if (node->fold->where) refer(node->fold->where);
        else text_ += kNull;
        break;
      default: number(node->i); break;
    }
    number(static_cast<int64_t>(node->args.size()));
    for (const Expr* arg : node->args) refer(arg);
  };
  if (extents_ == Extents::AsOne) walk_past_extents(e, visit);
  else walk(e, visit);
  refer(e);
}

void StructureKey::refer(const Expr* e) {
  const bool whole = extents_ == Extents::AsOne && is_extent(e);
  if (whole) text_ += kExtent;
  number(whole ? e->id : nodes_.at(e));
}

}  // namespace mlc::ir
