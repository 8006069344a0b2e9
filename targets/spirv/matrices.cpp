// Matrices of a team (loop::StmtKind::Matrix) as SPV_KHR_cooperative_matrix has them: values of a subgroup whose elements lie as the device likes, loaded from and stored to memory that
// the block shares, multiplied and added. Sums are variables of the function, which compilers keep in registers.
//
// Modules with matrices declare Vulkan's memory model, which the extension asks for: what lanes tell each other through memory is marked where it is read and written, and barriers make
// it available and visible. A team is a subgroup of the size that the entry states.
#include "targets/spirv/kernel_builder.h"

namespace mlc::targets::spirv {

using loop::MatrixOp;

void KernelBuilder::declare_matrices() {
  for (const Capability c : {Capability::Float16, Capability::VulkanMemoryModel, Capability::CooperativeMatrix}) writer_.capability(c);
  writer_.extension(kMatrixExtension);
  const loop::Team& team = kernel_.team;
  entry_.subgroup_lanes = static_cast<uint16_t>(team.lanes);
  const Id side = c_.u32(team.side), scope = c_.u32(kScopeSubgroup), half = writer_.unique(Op::TypeFloat, {16}), f32 = c_.type(Reg::F32);
  const auto type = [&](Id element, MatrixUse use) { return writer_.unique(Op::TypeCooperativeMatrix, {element, scope, side, side, c_.u32(static_cast<uint32_t>(use))}); };
  matrix_a_ = type(half, MatrixUse::A), matrix_b_ = type(half, MatrixUse::B), matrix_sum_ = type(f32, MatrixUse::Accumulator);
  const Id pointer = c_.pointer(StorageClass::Function, matrix_sum_);
  for (uint32_t k = 0; k < team.rows * team.columns; ++k) sums_.push_back(writer_.local(pointer));
}

void KernelBuilder::matrix(const loop::Stmt& s) {
  const loop::Team& team = kernel_.team;
  if (team.lanes == 0) return fail("matrices of a team, which this kernel does not have");
  if (s.matrix_op == MatrixOp::Begin) {
    const Id zero = writer_.unique(Op::ConstantComposite, {matrix_sum_, c_.real(Reg::F32, 0)});
    for (const Id sum : sums_) writer_.effect(Op::Store, {sum, zero});
    return;
  }
  const Buffer* b = buffer(s.array);
  std::vector<Id> at;
  for (const Expr* e : s.index) {
    const Value* v = b ? eval(e, true) : nullptr;
    if (!v) return;
    at.push_back((*v)[0]);
  }
  // Matrix `k` of those that lie one behind the other, `apart` cells from each other.
  const auto pointer = [&](Id first, int64_t apart, uint32_t k) {
    const Id cell = c_.op(Op::IAdd, Reg::U32, {first, c_.u32(b->first_cell + static_cast<uint32_t>(apart) * k)});
    return element(*b, cell);
  };
  if (s.matrix_op == MatrixOp::Store) {
    for (uint32_t k = 0; k < team.columns; ++k) {
      const Id sum = writer_.result(Op::Load, matrix_sum_, {sums_[static_cast<size_t>(s.step) * team.columns + k]});
      writer_.effect(Op::CooperativeMatrixStore, {pointer(at[0], team.side, k), sum, c_.u32(kRowMajor), at[1], kNonPrivate});
    }
    return;
  }
  const auto loaded = [&](uint32_t count, size_t index, Id type, uint32_t layout) {
    std::vector<Id> all;
    for (uint32_t k = 0; k < count; ++k)
      all.push_back(writer_.result(Op::CooperativeMatrixLoad, type, {pointer(at[index], s.index[index + 1]->i * team.side, k), c_.u32(layout), at[index + 1], kNonPrivate}));
    return all;
  };
  const std::vector<Id> rows = loaded(team.rows, 0, matrix_a_, kRowMajor), columns = loaded(team.columns, 2, matrix_b_, kColumnMajor);
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < columns.size(); ++c) {
      const Id sum = sums_[r * columns.size() + c], before = writer_.result(Op::Load, matrix_sum_, {sum});
      writer_.effect(Op::Store, {sum, writer_.result(Op::CooperativeMatrixMulAdd, matrix_sum_, {rows[r], columns[c], before})});
    }
}

}  // namespace mlc::targets::spirv
