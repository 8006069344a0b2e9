#include "targets/spirv/kernel_emitter.h"

#include <algorithm>

#include "packager/ir/context.h"
#include "targets/gpu/facts.h"
#include "targets/spirv/kernel_builder.h"

namespace mlc::targets::spirv {

namespace {
constexpr uint32_t kScalarsAt = 16;          // bytes of push constants before the scalars
}  // namespace

Result<EmittedKernel> emit_kernel(const loop::Kernel& kernel, const Limits& limits) { return KernelBuilder(kernel, limits).build(); }

void KernelBuilder::fail(std::string message) {
  if (status_.ok()) status_ = Status(Code::Unsupported, "kernel " + kernel_.name + ": " + std::move(message));
}

Status KernelBuilder::check() {
  if (kernel_.lanes == 0) fail("is not for devices");
  if (kernel_.lanes > limits_.lanes) fail("has blocks of " + std::to_string(kernel_.lanes) + " lanes, at most " + std::to_string(limits_.lanes) + " are allowed");
  if (!kernel_.cuts.empty()) fail("is cut, which kernels of devices are not");
  const size_t bindings = kernel_.params.size() + scalars_in_buffer_ + entry_.may_fault;
  if (bindings > limits_.bindings) fail("has " + std::to_string(bindings) + " bindings, at most " + std::to_string(limits_.bindings) + " are allowed");
  if (kernel_.scalars.size() > UINT16_MAX) fail("has too many scalars");
  if (folds_lanes_ && (!limits_.subgroups || kernel_.lanes % kMostSubgroup != 0)) fail("folds over " + std::to_string(kernel_.lanes) + " lanes, which the target does not");
  const loop::Team& team = kernel_.team;
  if (has_matrices() && (team.side != limits_.matrix_side || team.lanes != limits_.matrix_lanes))
    fail("has matrices of side " + std::to_string(team.side) + " by " + std::to_string(team.lanes) + " lanes, the target's are of side " + std::to_string(limits_.matrix_side) + " by " + std::to_string(limits_.matrix_lanes));
  if (has_matrices() && kernel_.lanes % kMostSubgroup != 0) fail("has matrices in blocks of " + std::to_string(kernel_.lanes) + " lanes, which are no full subgroups of any size");
  if (has_matrices() && entry_.may_fault) fail("has matrices and may fault, which this target does not");
  return status_;
}

Result<EmittedKernel> KernelBuilder::build() {
  loaded_.resize(kernel_.params.size() + kernel_.locals.size());
  scalars_in_buffer_ = kernel_.scalars.size() > mlc::gpu::kMaxPushScalars;
  find_loads(kernel_.body);
  const gpu::KernelFacts facts = gpu::facts_of(kernel_);
  entry_.may_fault = facts.may_fault, entry_.has_barriers = facts.has_barriers, folds_lanes_ = facts.folds_lanes;
  MLC_RETURN_IF_ERROR(check());
  entry_.name = "main";
  entry_.lanes = {static_cast<uint16_t>(kernel_.lanes), 1, 1};
  entry_.num_buffers = static_cast<uint16_t>(kernel_.params.size());
  entry_.num_scalars = static_cast<uint16_t>(kernel_.scalars.size());
  for (size_t k = 0; k < kernel_.params.size() && k < 64; ++k) entry_.written |= uint64_t{kernel_.params[k].written} << k;

  const gpu::Demands demands = gpu::demands_of(kernel_);
  entry_.narrow = demands.narrow, entry_.has_few_lanes = demands.has_few_lanes;
  ranges_ = gpu::ranges_under(kernel_, demands);

  writer_.capability(Capability::Shader);
  writer_.capability(Capability::SignedZeroInfNanPreserve);
  writer_.extension(kFloatControls);
  writer_.mode(Mode::LocalSize, {kernel_.lanes, 1, 1});
  writer_.mode(Mode::SignedZeroInfNanPreserve, {32});
  declare_arguments();
  declare_buffers();

  const Id vector = writer_.unique(Op::TypeVector, {c_.type(Reg::U32), 3});
  const Id group = input(BuiltIn::WorkgroupId, vector);
  const Id to_u32 = c_.pointer(StorageClass::Input, c_.type(Reg::U32));
  const auto axis = [&](uint32_t k) {
    return writer_.result(Op::Load, c_.type(Reg::U32), {writer_.result(Op::AccessChain, to_u32, {group, c_.u32(k)})});
  };
  if (has_matrices()) declare_matrices();
  if (folds_lanes_ || has_matrices()) declare_subgroups();
  else lane_ = writer_.result(Op::Load, c_.type(Reg::U32), {input(BuiltIn::LocalInvocationIndex, c_.type(Reg::U32))});
  const Id x = axis(0), y = axis(1);
  tile_ = c_.op(Op::IAdd, Reg::U32, {x, c_.op(Op::IMul, Reg::U32, {y, c_.u32(mlc::gpu::kGridColumns)})});
  c_.if_(c_.test(Op::ULessThan, tile_, push_constant(0, Reg::U32)), [&] {
    vars_[kernel_.tile_begin->i] = {{}, {tile_}, false, {}};
    block(kernel_.body);
  });
  writer_.effect(Op::Return, {});
  if (!status_.ok()) return std::move(status_);
  if (writer_.has(Capability::Float64)) writer_.mode(Mode::SignedZeroInfNanPreserve, {64});
  return EmittedKernel{writer_.finish(entry_.name, limits_.subgroups ? kVersion16 : kVersion13), writer_.capabilities(), entry_};
}

void KernelBuilder::find_loads(const std::vector<loop::StmtPtr>& body) {
  const auto within = [&](const Expr* e) {
    if (!e) return;
    ir::walk(e, [&](const Expr* part) {
      if (part->op == ir::Op::Load && part->array < loaded_.size()) loaded_[part->array] = true;
    });
  };
  for (const loop::StmtPtr& s : body) {
    for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) within(e);
    for (const Expr* e : s->index) within(e);
    find_loads(s->body);
    find_loads(s->orelse);
  }
}

Id KernelBuilder::input(BuiltIn what, Id type) {
  const Id v = writer_.global(Op::Variable, {c_.pointer(StorageClass::Input, type), static_cast<uint32_t>(StorageClass::Input)}, true);
  writer_.decorate(v, Decoration::BuiltIn, {static_cast<uint32_t>(what)});
  return v;
}

// A descriptor: a structure of one array without end.
Id KernelBuilder::declare_storage(uint32_t binding, unsigned bits, bool written, bool coherent) {
  const Id element = bits == 64 ? c_.type(Reg::U64) : writer_.unique(Op::TypeInt, {bits, 0});
  if (bits == 8) writer_.capability(Capability::StorageBuffer8BitAccess), writer_.extension(k8BitStorage);
  if (bits == 16) writer_.capability(Capability::StorageBuffer16BitAccess);
  const Id array = writer_.global(Op::TypeRuntimeArray, {element});
  writer_.decorate(array, Decoration::ArrayStride, {bits / 8});
  const Id block = writer_.global(Op::TypeStruct, {array});
  writer_.decorate(block, Decoration::Block);
  writer_.decorate_member(block, 0, Decoration::Offset, {0});
  constexpr auto kStorage = static_cast<uint32_t>(StorageClass::StorageBuffer);
  const Id v = writer_.global(Op::Variable, {writer_.global(Op::TypePointer, {kStorage, block}), kStorage}, true);
  writer_.decorate(v, Decoration::DescriptorSet, {0});
  writer_.decorate(v, Decoration::Binding, {binding});
  if (!written) writer_.decorate(v, Decoration::NonWritable);
  if (coherent) writer_.decorate(v, Decoration::Coherent);
  return v;
}

void KernelBuilder::declare_arguments() {
  for (size_t k = 0; k < kernel_.scalars.size(); ++k) syms_[kernel_.scalars[k]] = k;
  const size_t pushed = scalars_in_buffer_ ? 0 : kernel_.scalars.size();
  std::vector<Id> members(2, c_.type(Reg::U32));
  members.resize(2 + pushed, pushed ? c_.type(Reg::U64) : 0);
  const Id block = writer_.structure(members);
  writer_.decorate(block, Decoration::Block);
  for (uint32_t m = 0; m < members.size(); ++m)
    writer_.decorate_member(block, m, Decoration::Offset, {m < 2 ? 4 * m : kScalarsAt + 8 * (m - 2)});
  constexpr auto kPush = static_cast<uint32_t>(StorageClass::PushConstant);
  push_ = writer_.global(Op::Variable, {writer_.global(Op::TypePointer, {kPush, block}), kPush}, true);
  auto next = static_cast<uint32_t>(kernel_.params.size());
  if (scalars_in_buffer_) scalars_ = declare_storage(next++, 64, false, false);
  if (entry_.may_fault) faults_ = declare_storage(next++, 32, true, false);
}

Id KernelBuilder::push_constant(uint32_t member, Reg reg) {
  const Id pointer = writer_.result(Op::AccessChain, c_.pointer(StorageClass::PushConstant, c_.type(reg)), {push_, c_.u32(member)});
  return writer_.result(Op::Load, c_.type(reg), {pointer});
}

Id KernelBuilder::scalar(size_t k) {
  if (!scalars_in_buffer_) return push_constant(static_cast<uint32_t>(k) + 2, Reg::U64);
  const Id type = c_.type(Reg::U64);
  const Id pointer = writer_.result(Op::AccessChain, c_.pointer(StorageClass::StorageBuffer, type), {scalars_, c_.u32(0), c_.u32(static_cast<uint32_t>(k))});
  return writer_.result(Op::Load, type, {pointer});
}

// A buffer that the kernel both reads and writes is coherent where lanes wait for each other: what one wrote another reads. Elements of
// shared memory take a cell of 32 bits each, or two: lanes that write neighbouring ones must not meet in a cell.
void KernelBuilder::declare_buffers() {
  uint64_t cells = 0;
  for (uint32_t k = 0; k < kernel_.params.size() + kernel_.locals.size(); ++k) {
    Buffer b;
    if (k < kernel_.params.size()) {
      const loop::Param& p = kernel_.params[k];
      const unsigned bits = 8 * bytes_of(p.dtype);
      b.dtype = p.dtype;
      b.told = p.written && loaded_[k] && entry_.has_barriers;
      b.variable = declare_storage(k, bits, p.written, b.told && !has_matrices());
      b.element_type = bits == 64 ? c_.type(Reg::U64) : writer_.unique(Op::TypeInt, {bits, 0});
      b.element_pointer = c_.pointer(StorageClass::StorageBuffer, b.element_type);
      buffers_.push_back(b);
      continue;
    }
    const loop::LocalArray& l = kernel_.locals[k - kernel_.params.size()];
    if (!l.count || !l.count->is_const() || l.count->i < 0 || l.count->i > (int64_t{1} << 24) || l.space == loop::Space::Scratch)
      return fail("local array " + l.name + " has no size or no place on a device");
    b.dtype = l.dtype;
    b.kind = l.space == loop::Space::Shared ? Buffer::Kind::Shared : Buffer::Kind::Private;
    const auto count = static_cast<uint32_t>(std::max<int64_t>(1, l.count->i));
    if (b.kind == Buffer::Kind::Shared) {
      if (has_matrices()) cells = (cells + loop::kTeamCells - 1) / loop::kTeamCells * loop::kTeamCells;
      b.first_cell = static_cast<uint32_t>(cells);
      cells += uint64_t{count} * (bits_of(l.dtype) == 64 ? 2 : 1);
      if (cells * 4 > limits_.shared_bytes) return fail("needs more than " + std::to_string(limits_.shared_bytes) + " bytes of shared memory");
    } else {
      b.element_type = c_.type(reg_of(l.dtype));
      b.element_pointer = c_.pointer(StorageClass::Function, b.element_type);
      b.variable = writer_.local(c_.pointer(StorageClass::Function, writer_.unique(Op::TypeArray, {b.element_type, c_.u32(count)})));
    }
    buffers_.push_back(b);
  }
  if (folds_lanes_) {  // a number of each subgroup, of at most 64 bits
    partials_.kind = Buffer::Kind::Shared;
    partials_.first_cell = static_cast<uint32_t>(cells);
    cells += 2 * kernel_.lanes / kLeastSubgroup;
    if (cells * 4 > limits_.shared_bytes) return fail("needs more than " + std::to_string(limits_.shared_bytes) + " bytes of shared memory");
  }
  if (cells == 0) return;
  entry_.shared_bytes = static_cast<uint32_t>(cells * 4);
  const Id array = writer_.unique(Op::TypeArray, {c_.type(Reg::U32), c_.u32(static_cast<uint32_t>(cells))});
  constexpr auto kWorkgroup = static_cast<uint32_t>(StorageClass::Workgroup);
  const Id shared = writer_.global(Op::Variable, {c_.pointer(StorageClass::Workgroup, array), kWorkgroup}, true);
  const auto place = [&](Buffer& b) { b.variable = shared, b.element_type = c_.type(Reg::U32), b.element_pointer = c_.pointer(StorageClass::Workgroup, b.element_type); };
  for (Buffer& b : buffers_)
    if (b.kind == Buffer::Kind::Shared) place(b);
  if (folds_lanes_) place(partials_);
}

}  // namespace mlc::targets::spirv
