#include "packager/ir/structure_key.h"

#include <bit>
#include <charconv>

#include "packager/ir/context.h"

namespace mlc::ir {
namespace {

// Begin items that are no numbers; numbers end with a comma.
constexpr char kNode = '(', kNull = '-', kConstant = '#', kOpen = '?', kExtent = '=';

}  // namespace

void StructureKey::number(int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  text_.append(digits, end);
  text_ += ',';
}

void StructureKey::constant(const Expr* e) {
  text_ += kConstant;
  number(static_cast<int64_t>(e->type.dtype)), number(e->type.lanes);
  number(is_float(e->type.dtype) ? std::bit_cast<int64_t>(e->f) : e->i);
}

void StructureKey::expression(const Expr* e) {
  if (!e) {
    text_ += kNull;
    return;
  }
  if (e->is_const()) return constant(e);
  const auto visit = [&](const Expr* node) {
    if (node->is_const() || !nodes_.insert(node, static_cast<int64_t>(nodes_.size()))) return;
    text_ += kNode;
    number(static_cast<int64_t>(node->op)), number(static_cast<int64_t>(node->type.dtype)), number(node->type.lanes);
    switch (node->op) {
      case Op::Var: case Op::Sym: case Op::Dim: leaf_(*this, node); break;
      case Op::Load: number(static_cast<int64_t>(node->access)), leaf_(*this, node); break;
      case Op::Fold:
        leaf_(*this, node);
        refer(node->fold->where);
        break;
      default: number(node->i); break;
    }
    number(static_cast<int64_t>(node->args.size()));
    for (size_t k = 0; k < node->args.size(); ++k) {
      if (open_ && open_(node, k)) text_ += kOpen;
      else refer(node->args[k]);
    }
  };
  if (extents_ == Extents::AsOne) walk_past_extents(e, visit);
  else walk(e, visit);
  refer(e);
}

void StructureKey::refer(const Expr* e) {
  if (!e) {
    text_ += kNull;
  } else if (e->is_const()) {
    constant(e);
  } else if (extents_ == Extents::AsOne && is_extent(e)) {
    text_ += kExtent;
    number(e->id);
  } else {
    number(*nodes_.find(e));
  }
}

}  // namespace mlc::ir
