// What every pass, layout and template means by "a product": a sum over products of elements of two arrays.
//
//   sum( a[batch, m, taps, k] * b[batch, n, taps, k]  for taps, k  where ..)
//
// An element is a number as stored in memory (f16 and bf16 are converted to f32, in which their products are summed; f32 may be rounded to
// tf32), or a
// code of 8 bits: then the number is scale * (code - zero). Around the sum stands the epilogue, which does not matter here.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "packager/ir/context.h"

namespace mlc::nest {

struct Operand {
  const ir::Expr* factor = nullptr;  // of the product, as it stands there
  const ir::Expr* load = nullptr;    // of an array; null: the factor is computed (Factors)
  const ir::Expr* zero = nullptr;    // of a code, in the type of the sum, free of the folded dims; null: 0
  const ir::Expr* scale = nullptr;   // free of the folded dims; null: 1
  // What points that do not exist read instead of an element, and the condition that they do: `where` of this operand alone.
  const ir::Expr *inside = nullptr, *outside = nullptr;
  DType code() const { return load->type.dtype; }
  bool is_code() const { return load->type.dtype == DType::I8 || load->type.dtype == DType::U8; }
  bool is_plain() const { return !zero && !scale && !inside; }
};

struct Contraction {
  const ir::Expr* fold = nullptr;
  Operand a, b;                      // in the order of the product, which means nothing
  // Dims of the scope: of both operands, of a alone, of b alone. Folded dims: k, a plain index of both (in a slice: behind a number of others) that nothing restricts;
  // all others are taps.
  std::vector<const ir::Dim*> batch, m, n, k, taps;
  const ir::Expr *sum_of_a = nullptr, *sum_of_b = nullptr;  // of one operand over the same points, beside the product (only_product)
  DType acc() const { return fold->type.dtype; }
  bool is_plain() const { return a.is_plain() && b.is_plain(); }
  // sum(code * code), where a may be padded.
  bool is_plain_product() const { return !a.zero && !a.scale && b.is_plain(); }
  // The same product, its factors the other way round.
  Contraction swapped() const;
};

// Elements, as above; or `a` is a number in memory and `b` is computed, by whatever: for those who have code for that.
enum class Factors : uint8_t { Elements, Computed };
// The product that `fold` is, where the dims of `scope` run around it; nothing, if it is none.
std::optional<Contraction> contraction_of(ir::Context& ctx, std::span<const ir::Dim* const> scope, const ir::Expr* fold,
                                          Factors factors = Factors::Elements);
// The only product in `value`, where all other folds are sums of one of its operands.
std::optional<Contraction> only_product(ir::Context& ctx, std::span<const ir::Dim* const> scope, const ir::Expr* value, Factors factors);

// A sum in f32 of products of bf16: pairs of them along k are multiplied at once.
bool is_product_of_pairs(const Contraction& c);

// A code as instructions want the second factor: of i8, or of u8 less 128, which is the same with its first bit flipped.
bool is_signed_code(const Operand& operand);
// Of two values, whatever order they are multiplied in: whether `b` should be the first. That is the one along which the sum runs;
// else the second is the one that knows the columns as they are written.
bool is_turned(ir::Context& ctx, const Contraction& c, std::span<const ir::Expr* const> written);
// Whether there are rows enough that copying `b` into panels pays, and columns to fill these.
bool is_worth_packing(const Contraction& c);

// Whether `fold` is the sum of one operand of `c` over the same points, sum(code): what a zero point of the other one multiplies.
bool is_sum_of_operand(const ir::Expr* fold, const Contraction& c, const Operand& operand);

// Codes of a column lie in groups of this many along k: what instructions on 8 bits multiply and add at once.
constexpr int64_t kGroup = 4;
// The same of bf16.
constexpr int64_t kPair = 2;
// Columns of a panel, in the layout of weights.
constexpr int64_t kPanel = 16;
// Columns so few that vectors of a product run along k instead (packager/lower/product/tiled_product.h), where k allows it.
constexpr int64_t kFewColumns = 4;
// Packing columns costs as much as this many rows of a product, nearly.
constexpr int64_t kRowsWorthPacking = 8;
// Lanes of vectors along k, a power of two up to `lanes`, behind which fewer elements of k may be left; 1: it is too short to be worth it.
unsigned lanes_along_k(const ir::Expr* k_extent, unsigned lanes);

}  // namespace mlc::nest
