// The product that a flat nest computes: what the templates of products ask, those of processors, of decoded weights and of devices.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "packager/lower/flat/flat.h"
#include "packager/nest/facts/contraction.h"

namespace mlc::lower {

struct TiledProduct;

// What was found out about the product of a nest, and in what it was found. Copies of the nest share it; a nest that was changed since is
// looked at again.
struct FoundProduct {
  const ir::Expr *value = nullptr, *address = nullptr;
  std::vector<const ir::Dim*> dims;
  std::optional<nest::Contraction> product;
  std::map<unsigned, std::shared_ptr<const TiledProduct>> tiled;  // for vectors of so many sums (product/tiled_product.h); null: none
};

// The only product of a nest that writes one value, everywhere; null, if there is none. It may be evaluated at every point, and elements are
// read at an address alone, without a check. It is looked for once, and stays where it is until the nest is changed.
const nest::Contraction* product_of(ir::Context& ctx, const FlatNest& nest);
// The same with a second factor that is computed, of whatever.
std::optional<nest::Contraction> computed_product_of(ir::Context& ctx, const FlatNest& nest);

}  // namespace mlc::lower
