#include "packager/ir/structure_key.h"

#include <bit>

#include "packager/ir/context.h"

namespace mlc::ir {
namespace {

// Begin items that are no numbers; numbers end with a comma.
constexpr char kNode = '(', kNull = '-';

}  // namespace

void StructureKey::number(int64_t value) { text_ += std::to_string(value) + ","; }

void StructureKey::expression(const Expr* e) {
  if (!e) {
    text_ += kNull;
    return;
  }
  walk(e, [&](const Expr* node) {
    if (!nodes_.emplace(node, static_cast<int64_t>(nodes_.size())).second) return;
    text_ += kNode;
    number(static_cast<int64_t>(node->op)), number(static_cast<int64_t>(node->type.dtype)), number(node->type.lanes);
    switch (node->op) {
      case Op::Var: case Op::Sym: case Op::Dim: leaf_(*this, node); break;
      case Op::Const: number(is_float(node->type.dtype) ? std::bit_cast<int64_t>(node->f) : node->i); break;
      case Op::Load: number(static_cast<int64_t>(node->access)), leaf_(*this, node); break;
      case Op::Fold:
        leaf_(*this, node);
        text_ += node->fold->where ? std::to_string(nodes_.at(node->fold->where)) + "," : std::string(1, kNull);
        break;
      default: number(node->i); break;
    }
    number(static_cast<int64_t>(node->args.size()));
    for (const Expr* arg : node->args) number(nodes_.at(arg));
  });
  number(nodes_.at(e));
}

}  // namespace mlc::ir
