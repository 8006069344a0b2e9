#include "packager/nest/contraction.h"

namespace mlc::nest {

using ir::Op;

const ir::Expr* operand_load(const ir::Expr* factor) {
  if (factor->op == Op::Load) return factor;
  if (factor->op != Op::Cast || factor->type.dtype != DType::F32 || factor->args[0]->op != Op::Load) return nullptr;
  const DType stored = factor->args[0]->type.dtype;
  return stored == DType::F16 || stored == DType::BF16 ? factor->args[0] : nullptr;
}

bool is_contraction(const ir::Expr* fold) {
  if (fold->op != Op::Fold || fold->fold->combiner->join != ir::Join::Sum || fold->args[0]->op != Op::Mul) return false;
  return operand_load(fold->args[0]->args[0]) && operand_load(fold->args[0]->args[1]);
}

unsigned lanes_along_k(const ir::Expr* k_extent, unsigned lanes) {
  if (!k_extent->is_const()) return 1;
  while (lanes > 1 && k_extent->i % lanes != 0) lanes /= 2;
  return lanes >= 4 ? lanes : 1;
}

}  // namespace mlc::nest
