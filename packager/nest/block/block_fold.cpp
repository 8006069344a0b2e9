// Folds: the condition and the items are programs that run once per point of the folded dims, and what they give is joined
// to totals, one per lane.
#include "packager/nest/block/block_machine.h"

namespace mlc::nest {

void BlockMachine::fold(const FoldCode& f) {
  if (f.multiply_add) return sum_of_products(f);
  for (size_t k = 0; k < f.totals.size(); ++k) copy(f.totals[k], f.units[k]);
  if (!any(f.mask)) return;
  for (int d : f.dims)
    if (extent(d) <= 0) return;
  for (int d : f.dims) move(d, 0);
  do {
    run(f.where);
    if (fault_.failed) return;
    if (!any(f.check_reg)) continue;
    run(f.body);
    if (fault_.failed) return;
    combine(f);
  } while (next_point(f));
}

// The innermost dim runs fastest. False: that was the last point, and all dims are 0 again.
bool BlockMachine::next_point(const FoldCode& f) {
  for (size_t k = f.dims.size(); k-- > 0;) {
    const int d = f.dims[k];
    const int64_t next = point_[static_cast<size_t>(d)] + 1;
    if (next < extent(d)) {
      move(d, next);
      return true;
    }
    move(d, 0);
  }
  return false;
}

void BlockMachine::combine(const FoldCode& f) {
  const int mask = all(f.where_reg) ? -1 : f.where_reg;
  if (f.combiner->join == ir::Join::Custom) {
    run(f.join);
    for (size_t k = 0; k < f.totals.size(); ++k) take(f.totals[k], f.joined[k], mask);
    return;
  }
  const int total = f.totals[0], item = f.items[0];
  if (f.combiner->join == ir::Join::Last) return take(total, item, mask);
  const ir::Op op = op_of(f.combiner->join);
  if (mask < 0) return binary(op, f.wide, total, total, item);
  if (combine_masked(op, f.wide, total, item, ints(mask))) return;
  for (int64_t i = 0, n = count(total); i < n; ++i)
    if (ints(mask)[i]) set(total, i, ir::apply_binary(op, f.wide, get(total, i), get(item, i)));
}

// The joins that models are made of, in vectors: lanes that the mask leaves out keep what they have.
bool BlockMachine::combine_masked(ir::Op op, DType type, int total, int item, const int64_t* mask) {
  const int64_t n = count(total);
  if (kind(total) == Register::F32 && type == DType::F32 && (op == ir::Op::Add || op == ir::Op::Max)) {
    float* t = floats(total);
    const float* x = floats(item);
    if (op == ir::Op::Add)
      for (int64_t i = 0; i < n; ++i) t[i] = mask[i] ? t[i] + x[i] : t[i];
    else
      for (int64_t i = 0; i < n; ++i) t[i] = !mask[i] || t[i] != t[i] ? t[i] : x[i] != x[i] || !(t[i] > x[i]) ? x[i] : t[i];
    return true;
  }
  if (op != ir::Op::Add || (type != DType::I32 && type != DType::I64)) return false;
  int64_t* t = ints(total);
  const int64_t* x = ints(item);
  for (int64_t i = 0; i < n; ++i) t[i] = static_cast<int64_t>(static_cast<uint64_t>(t[i]) + static_cast<uint64_t>(mask[i] ? x[i] : 0));
  wrap(type, total);
  return true;
}

}  // namespace mlc::nest
