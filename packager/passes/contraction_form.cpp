#include "packager/passes/contraction_form.h"

#include <algorithm>

namespace mlc::passes {
namespace {

constexpr int64_t kTypicalExtent = 64;

double typical(const ir::Expr* extent) {
  auto value = ir::evaluate_extent(extent, [](const ir::Sym*) { return std::optional<int64_t>(kTypicalExtent); });
  return value ? static_cast<double>(*value) : kTypicalExtent;
}

const ir::Expr* only_fold(const ir::Expr* value) {
  const ir::Expr* fold = nullptr;
  size_t count = 0;
  ir::walk(value, [&](const ir::Expr* e) {
    if (e->op == ir::Op::Fold) fold = e, ++count;
  });
  return count == 1 ? fold : nullptr;
}

// Casts around an operand do not change what it is.
const ir::Expr* load_under(const ir::Expr* e) {
  while (e->op == ir::Op::Cast) e = e->args[0];
  return e->op == ir::Op::Load ? e : nullptr;
}

}  // namespace

std::set<const ir::Dim*> dims_in(const ir::Expr* e) {
  std::set<const ir::Dim*> dims;
  ir::walk(e, [&](const ir::Expr* node) {
    if (node->op == ir::Op::Dim) dims.insert(node->dim);
  });
  return dims;
}

std::optional<ContractionForm> contraction_in(const nest::Function& function, const nest::Nest& nest) {
  if (nest.writes.size() != 1 || nest.scan_dim) return std::nullopt;
  ContractionForm form;
  form.write = &nest.writes[0];
  form.fold = only_fold(form.write->value);
  if (!form.fold || form.fold->fold->combiner->join != ir::Join::Sum) return std::nullopt;
  const ir::Expr* product = form.fold->args[0];
  while (product->op == ir::Op::Cast) product = product->args[0];
  if (product->op != ir::Op::Mul) return std::nullopt;
  const ir::Expr* a = load_under(product->args[0]);
  const ir::Expr* b = load_under(product->args[1]);
  if (!a || !b) return std::nullopt;

  const auto in_a = dims_in(a), in_b = dims_in(b);
  // The innermost map dim that only one operand depends on: written last, so its stores are the closest together.
  const ir::Dim *own_a = nullptr, *own_b = nullptr, *innermost = nullptr;
  for (const ir::Dim* dim : nest.dims) {
    const bool a_has = in_a.count(dim), b_has = in_b.count(dim);
    if (a_has && b_has) form.channel = dim;
    if (a_has && !b_has) own_a = innermost = dim;
    if (b_has && !a_has) own_b = innermost = dim;
  }
  const auto is_const = [&](const ir::Expr* load) { return function.arrays[load->array].kind == nest::Array::Kind::Const; };
  const bool a_is_right = is_const(a) != is_const(b) ? is_const(a) : own_a != nullptr && own_a == innermost;
  form.left = a_is_right ? b : a;
  form.right = a_is_right ? a : b;
  form.column = a_is_right ? own_a : own_b;

  for (const ir::Expr* index : form.left->args) {
    const auto dims = dims_in(index);
    const bool slides = std::any_of(nest.dims.begin(), nest.dims.end(), [&](const ir::Dim* d) { return dims.count(d) != 0; });
    if (!slides) continue;
    for (const ir::Dim* dim : form.fold->fold->dims)
      if (dims.count(dim)) form.windows.insert(dim);
  }
  form.work = 1;
  for (const ir::Dim* dim : nest.dims) form.work *= typical(dim->extent);
  for (const ir::Dim* dim : form.fold->fold->dims) form.work *= typical(dim->extent);
  return form;
}

}  // namespace mlc::passes
