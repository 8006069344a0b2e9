// Folds over the lanes of a block (loop::StmtKind::FoldLanes), in the order that Loop promises: a lane with its neighbour, pairs with
// pairs, and so on. So the bits of a result do not depend on how many lanes a subgroup has, from 4 to 64.
//
// Within a subgroup a lane gets the number of another one without memory; integers, whose sums have no order, by one instruction.
// Between subgroups the rest of the tree goes through memory that the block shares. In these kernels a lane's number is made of that
// of its subgroup and its place there: nothing says that the number that Vulkan counts by has neighbours in one subgroup.
#include <algorithm>

#include "targets/spirv/kernel_builder.h"

namespace mlc::targets::spirv {

using IrOp = ir::Op;

namespace {

// 0: none adds up what the tree does.
Op reduction(IrOp combine, DType t) {
  if (t == DType::Bool) return combine == IrOp::And ? Op::GroupNonUniformLogicalAnd : combine == IrOp::Or ? Op::GroupNonUniformLogicalOr : Op{};
  if (is_float(t) || reg_of(t) != Reg::U32) return Op{};
  const bool has_sign = is_signed_int(t);
  switch (combine) {
    case IrOp::Add: return Op::GroupNonUniformIAdd;
    case IrOp::Mul: return Op::GroupNonUniformIMul;
    case IrOp::Min: return has_sign ? Op::GroupNonUniformSMin : Op::GroupNonUniformUMin;
    case IrOp::Max: return has_sign ? Op::GroupNonUniformSMax : Op::GroupNonUniformUMax;
    default: return Op{};
  }
}

}  // namespace

void KernelBuilder::declare_subgroups() {
  writer_.capability(Capability::GroupNonUniform);
  entry_.wants_full_subgroups = true;
  const Id u32 = c_.type(Reg::U32);
  const auto read = [&](BuiltIn what) { return writer_.result(Op::Load, u32, {input(what, u32)}); };
  subgroup_size_ = read(BuiltIn::SubgroupSize);
  subgroup_ = read(BuiltIn::SubgroupId);
  place_ = read(BuiltIn::SubgroupLocalInvocationId);
  lane_ = c_.op(Op::IAdd, Reg::U32, {c_.op(Op::IMul, Reg::U32, {subgroup_, subgroup_size_}), place_});
}

// Of the lane whose place differs in this bit.
Id KernelBuilder::from_partner(DType t, Id value, uint32_t distance) {
  writer_.capability(Capability::GroupNonUniformShuffle);
  const Id scope = c_.u32(kScopeSubgroup), mask = c_.u32(distance), u32 = c_.type(Reg::U32);
  const auto swap = [&](Id word) { return writer_.result(Op::GroupNonUniformShuffleXor, u32, {scope, word, mask}); };
  const Id raw = n_.to_raw(t, value);
  if (bits_of(t) < 64) return n_.from_raw(t, swap(raw));
  const Id low = swap(c_.op(Op::UConvert, Reg::U32, {raw}));
  const Id high = swap(c_.op(Op::UConvert, Reg::U32, {c_.op(Op::ShiftRightLogical, Reg::U64, {raw, c_.u32(32)})}));
  const Id upper = c_.op(Op::ShiftLeftLogical, Reg::U64, {c_.op(Op::UConvert, Reg::U64, {high}), c_.u32(32)});
  return n_.from_raw(t, c_.op(Op::BitwiseOr, Reg::U64, {c_.op(Op::UConvert, Reg::U64, {low}), upper}));
}

// Of the lanes of a subgroup, or of `width` side by side if that is fewer; the same bits in all of these.
Id KernelBuilder::fold_subgroup(IrOp combine, DType t, Id value, uint32_t width) {
  if (const Op reduce = reduction(combine, t); reduce != Op{} && width >= kMostSubgroup) {
    writer_.capability(Capability::GroupNonUniformArithmetic);
    const Id all = writer_.result(reduce, c_.type(reg_of(t)), {c_.u32(kScopeSubgroup), kReduce, value});
    const bool wraps = t != DType::Bool && bits_of(t) < 32;
    return wraps ? n_.binary(IrOp::Add, t, all, n_.constant(t, 0, 0)) : all;
  }
  const auto paired = [&](Id mine, uint32_t distance) {
    const Id other = from_partner(t, mine, distance);
    if (!is_float(t) || (combine != IrOp::Min && combine != IrOp::Max)) return n_.binary(combine, t, mine, other);
    // Which of two zeros is the smaller one depends on which comes first.
    const Id is_left = c_.test(Op::IEqual, c_.op(Op::BitwiseAnd, Reg::U32, {place_, c_.u32(distance)}), c_.u32(0));
    return n_.binary(combine, t, c_.select(reg_of(t), is_left, mine, other), c_.select(reg_of(t), is_left, other, mine));
  };
  for (uint32_t distance = 1; distance < std::min(kLeastSubgroup, width); distance *= 2) value = paired(value, distance);
  if (width <= kLeastSubgroup) return value;
  const Body::Variable sum = c_.variable(reg_of(t), value);
  for (uint32_t distance = kLeastSubgroup; distance < std::min(kMostSubgroup, width); distance *= 2)
    c_.if_(c_.test(Op::UGreaterThan, subgroup_size_, c_.u32(distance)), [&] { c_.store(sum, paired(c_.load(sum), distance)); });
  return c_.load(sum);
}

// Of the subgroups that hold `width` lanes together; each has its own already.
Id KernelBuilder::fold_between(IrOp combine, DType t, Id value, uint32_t width) {
  Buffer partials = partials_;
  partials.dtype = t;
  c_.if_(c_.test(Op::IEqual, place_, c_.u32(0)), [&] { store_element(partials, subgroup_, value); });
  barrier();
  const auto subgroups_of = [&](uint32_t lanes) { return c_.op(Op::UDiv, Reg::U32, {c_.u32(lanes), subgroup_size_}); };
  const Id together = subgroups_of(width), all = subgroups_of(kernel_.lanes);
  const Body::Variable distance = c_.variable(Reg::U32, c_.u32(1));
  c_.loop([&] { return c_.test(Op::ULessThan, c_.load(distance), together); },
          [&] {
            const Id d = c_.load(distance), below = c_.op(Op::ISub, Reg::U32, {c_.op(Op::IAdd, Reg::U32, {d, d}), c_.u32(1)});
            const Id is_left = c_.test(Op::IEqual, c_.op(Op::BitwiseAnd, Reg::U32, {lane_, below}), c_.u32(0));
            c_.if_(c_.test(Op::LogicalAnd, is_left, c_.test(Op::ULessThan, lane_, all)), [&] {
              const Id right = load_element(partials, c_.op(Op::IAdd, Reg::U32, {lane_, d}));
              store_element(partials, lane_, n_.binary(combine, t, load_element(partials, lane_), right));
            });
            barrier();
          },
          [&] { c_.store(distance, c_.op(Op::IAdd, Reg::U32, {c_.load(distance), c_.load(distance)})); });
  const Id first = width == kernel_.lanes ? c_.u32(0) : c_.op(Op::IMul, Reg::U32, {c_.op(Op::UDiv, Reg::U32, {subgroup_, together}), together});
  const Id total = load_element(partials, first);
  barrier();  // before the next fold writes there
  return total;
}

void KernelBuilder::fold_lanes(const loop::Stmt& s) {
  const DType t = s.var->type.dtype;
  Id value = scalar_of(s.value);
  if (!value) return;
  const uint32_t width = s.step == 1 ? kernel_.lanes : static_cast<uint32_t>(s.step);
  value = fold_subgroup(s.combine, t, value, width);
  if (width > kMostSubgroup) {
    value = fold_between(s.combine, t, value, width);
  } else if (width > kLeastSubgroup) {
    const Body::Variable sum = c_.variable(reg_of(t), value);
    c_.if_(c_.test(Op::ULessThan, subgroup_size_, c_.u32(width)), [&] { c_.store(sum, fold_between(s.combine, t, c_.load(sum), width)); });
    value = c_.load(sum);
  }
  vars_[s.var->i] = {{value}, {}, false, {}};
}

}  // namespace mlc::targets::spirv
