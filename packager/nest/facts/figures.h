// How much statements do, as counts over the symbols of their function: what profiles hold times against.
//
// The counts are those of the text, not of the code that is made of it. A value counts once for every combination of the dims
// that it depends on, so what a loop need not repeat is not repeated here either; points that a `where` leaves out are counted.
// Conversions, choices, comparisons and addresses count nothing, a fused multiplication and addition two, a function such as
// exp as many operations as its text has, roughly. Bytes of an array are those that are touched, at most all of it: what is
// read again is taken to come from a cache.
#pragma once

#include <span>

#include "packager/nest/nest.h"

namespace mlc::nest {

struct Figures {
  // Extents (i64); null: not known.
  const ir::Expr* operations = nullptr;
  const ir::Expr* read = nullptr;     // bytes
  const ir::Expr* written = nullptr;  // bytes
  bool of_bytes = false;              // most operations are products of 8 bits
};

// Of nests that run one after the other. `locals`: arrays that are no memory.
Figures figures_of(ir::Context& ctx, const Function& f, std::span<const Nest* const> nests, const std::vector<uint32_t>& locals = {});
// Of a kernel that moves arrays: all of these, once. No operations.
Figures moved(ir::Context& ctx, const std::vector<const ir::Expr*>& read, const std::vector<const ir::Expr*>& written);
// Bytes that an array takes, as a number of type f64; null: not known before the run.
const ir::Expr* stored_bytes(ir::Context& ctx, const Array& array);

}  // namespace mlc::nest
