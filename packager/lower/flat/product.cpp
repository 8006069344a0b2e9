#include "packager/lower/flat/product.h"

#include "packager/lower/flat/facts.h"

namespace mlc::lower {

namespace {

bool writes_one_value(const FlatNest& nest) { return nest.writes.size() == 1 && !nest.writes[0].push && !nest.scan_dim && !nest.where; }

std::optional<nest::Contraction> find_product(ir::Context& ctx, const FlatNest& nest, nest::Factors factors) {
  const ir::Expr* value = nest.writes[0].value;
  auto c = nest::only_product(ctx, nest.dims, value, factors);
  if (!c) return std::nullopt;
  for (const nest::Operand* o : {&c->a, &c->b})
    if (o->load && o->load->args.size() != 1) return std::nullopt;
  Facts facts;
  return nest.folds_anywhere || !facts.needs_guard(c->fold) || is_unconditional(value, c->fold) ? c : std::nullopt;
}

}  // namespace

const nest::Contraction* product_of(ir::Context& ctx, const FlatNest& nest) {
  if (!writes_one_value(nest)) return nullptr;
  const ir::Expr *value = nest.writes[0].value, *address = nest.writes[0].address;
  if (!nest.found || nest.found->value != value || nest.found->address != address || nest.found->dims != nest.dims)
    nest.found = std::make_shared<FoundProduct>(FoundProduct{value, address, nest.dims, find_product(ctx, nest, nest::Factors::Elements), {}});
  return nest.found->product ? &*nest.found->product : nullptr;
}

std::optional<nest::Contraction> computed_product_of(ir::Context& ctx, const FlatNest& nest) {
  return writes_one_value(nest) ? find_product(ctx, nest, nest::Factors::Computed) : std::nullopt;
}

}  // namespace mlc::lower
