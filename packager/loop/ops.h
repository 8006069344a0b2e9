// Names and arities of the operations that Loop expressions may use; shared by printer, parser and verifier.
#pragma once

#include <optional>
#include <string_view>

#include "packager/ir/expr.h"

namespace mlc::loop {

struct OpInfo {
  ir::Op op;
  std::string_view name;
  int min_args, max_args;
};
// Null for operations that Loop does not know (Dim, Fold, transcendental functions ...) and for leaves.
const OpInfo* op_info(ir::Op op);
const OpInfo* op_named(std::string_view name);
bool is_comparison(ir::Op op);
// The type in which Op::Dot sums products of these; None if it does not take them.
DType dot_sum(DType a, DType b);
// Whether Op::Bitcast takes each lane of `words`, integers of 32 bits, for four of `codes`.
bool is_cells_of_codes(ir::Type words, ir::Type codes);
inline constexpr unsigned kCodesOfCell = 4;

}  // namespace mlc::loop
