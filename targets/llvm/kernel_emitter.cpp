#include "targets/llvm/kernel_emitter.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "schema/module_abi.h"
#include "targets/families.h"

namespace mlc::targets {

using loop::Stmt;
using loop::StmtKind;

Abilities abilities_of(const Target& t) {
  Abilities a;
  if (is_ptx(t)) {
    a.fma = a.round = a.ptx_convert = true;
    a.ieee_minmax = a.ptx_convert_bf16 = a.ptx_convert_pairs = t.llvm_cpu != "sm_75";
    a.calls = false;
    a.target = &t;
    return a;
  }
  a.fma = t.has_fma;
  a.round = t.machine == Machine::AArch64 || has_feature(t, "x86.sse41");
  a.f16_convert = t.machine == Machine::AArch64 || has_feature(t, "x86.f16c");
  a.ieee_minmax = a.ieee_minmax_f64 = t.machine == Machine::AArch64;
  a.target = &t;
  return a;
}

KernelEmitter::KernelEmitter(llvm::Module& module, const Abilities& abilities, Frame& frame)
    : module_(module), context_(module.getContext()), can_(abilities), frame_(frame), b_(module.getContext()) {}

void KernelEmitter::fail(std::string message) {
  if (status_.ok()) status_ = Status(Code::Internal, "kernel " + kernel_->name + ": " + std::move(message));
}

llvm::BasicBlock* KernelEmitter::new_block(const char* name) {
  return llvm::BasicBlock::Create(context_, name, function_);
}

llvm::AllocaInst* KernelEmitter::entry_alloca(llvm::Type* type) {
  llvm::IRBuilder<> at(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  return at.CreateAlloca(type);
}

void KernelEmitter::forget_all() {
  status_ = {};
  buffers_.clear();
  syms_.clear();
  vars_.clear();
  locals_.clear();
  cache_.clear();
  log_.clear();
  statement_.clear();
  flags_.clear();
  powers_.clear();
  uses_.clear();
  registers_.clear();
  shared_.clear();
  tile_factors_ = {};
  uses_tiles_ = false;
  configured_bytes_ = 0;
}

Status KernelEmitter::emit(const loop::Kernel& kernel, const std::string& name) {
  forget_all();
  kernel_ = &kernel;
  MLC_ASSIGN(const Frame::Arguments arguments, frame_.open(b_, module_, kernel, name));
  // Devices have no scratch memory; what does not fit in registers there their assembler sees to.
  in_scratch_ = kernel.hoisting == loop::Hoisting::None && arguments.scratch;
  if (kernel.hoisting != loop::Hoisting::All) arguments.function->addFnAttr(kHoistingAttribute, in_scratch_ ? "none" : "innermost");
  statements_left_ = 1'000'000;
  take_arguments(arguments, name);
  ranges_ = kernel.lanes ? gpu::ranges_under(kernel, gpu::demands_of(kernel)) : gpu::Ranges();
  place_symbolic_locals();
  configure_tiles();
  block(kernel.body);
  frame_.close(b_);
  release_tiles();
  return std::move(status_);
}

void KernelEmitter::take_arguments(const Frame::Arguments& a, const std::string& name) {
  function_ = a.function;
  lane_ = a.lane;
  partials_ = a.partials;
  scratch_ = a.scratch;
  scratch_bytes_ = a.scratch_bytes;
  llvm::MDBuilder md(context_);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain(name);
  std::vector<llvm::Metadata*> scopes;
  for (size_t k = 0; k < a.buffers.size(); ++k) scopes.push_back(md.createAnonymousAliasScope(domain));
  for (size_t k = 0; k < a.buffers.size(); ++k) {
    const size_t num_params = kernel_->params.size();
    Buffer buffer;
    buffer.base = a.buffers[k];
    buffer.dtype = k < num_params ? kernel_->params[k].dtype : kernel_->locals[k - num_params].dtype;
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<ptrdiff_t>(k));
    buffer.scope = llvm::MDNode::get(context_, scopes[k]);
    if (!others.empty()) buffer.no_alias = llvm::MDNode::get(context_, others);
    buffers_.push_back(buffer);
  }
  for (size_t k = 0; k < kernel_->scalars.size(); ++k) syms_[kernel_->scalars[k]] = a.scalars[k];
  for (size_t k = 0; k < kernel_->cuts.size(); ++k) vars_[kernel_->cuts[k].chunk->i] = a.scalars[kernel_->scalars.size() + k];
  if (kernel_->tile_begin) vars_[kernel_->tile_begin->i] = a.tile_begin;
  if (kernel_->tile_end) vars_[kernel_->tile_end->i] = a.tile_end;
}

// Behind all that the entry of the kernel asks for (schema/plan.fbs: Instr.scratch).
void KernelEmitter::place_symbolic_locals() {
  Value* offset = b_.getInt64(scratch_bytes_);
  for (size_t k = 0; k < kernel_->locals.size(); ++k) {
    const loop::LocalArray& local = kernel_->locals[k];
    if (local.count->is_const()) continue;
    if (in_scratch_) return fail("keeps its values in scratch memory, whose size must be known then");
    buffers_[kernel_->params.size() + k].base = b_.CreateInBoundsGEP(b_.getInt8Ty(), scratch_, offset);
    Value* count = eval(local.count);
    if (!count) return;
    offset = b_.CreateAdd(offset, b_.CreateMul(count, b_.getInt64(bytes_of(local.dtype))));
  }
}

void KernelEmitter::block(const std::vector<loop::StmtPtr>& body) {
  const size_t mark = open_scope();
  for (const loop::StmtPtr& s : body) {
    if (!status_.ok()) break;
    if (statements_left_-- == 0) return fail("unrolls to more than a million statements");
    statement(*s);
    end_statement();
  }
  close_scope(mark);
}

void KernelEmitter::statement(const Stmt& s) {
  if (s.kind != StmtKind::Tiles) tile_factors_ = {};
  switch (s.kind) {
    case StmtKind::For: return for_loop(s);
    case StmtKind::While: return while_loop(s);
    case StmtKind::If: return if_else(s);
    case StmtKind::Store: return store(s);
    case StmtKind::Barrier:
      if (!frame_.barrier(b_)) fail("a barrier in a kernel for processors");
      return;
    case StmtKind::ClusterBarrier:
      if (!frame_.cluster_barrier(b_)) fail("a barrier of a cluster in a kernel for processors");
      return;
    case StmtKind::LoadMatrices: return load_matrices(s);
    case StmtKind::Peer: return peer(s);
    case StmtKind::FoldLanes: return fold_lanes(s);
    case StmtKind::Mma: return mma(s);
    case StmtKind::GroupMma: return group_mma(s);
    case StmtKind::Matrix: return fail("matrices of a team, which this target does not have");
    case StmtKind::Tiles: return tiles(s);
    case StmtKind::Copy: case StmtKind::CloseCopies: case StmtKind::WaitCopies: return copy(s);
    case StmtKind::Prefetch: return prefetch(s);
    case StmtKind::Let:
      if (kernel_->lanes && s.value->type.dtype == DType::I64) {
        ranges_.define(s);
        if (s.value->type.lanes == 1) powers_[s.var->i] = power_dividing(s.value, kMostAligned);
      }
      if (Value* v = eval(s.value)) {
        if (!in_scratch_) vars_[s.var->i] = v;
        else write(locals_[s.var->i] = new_slot(v->getType()), v);
      }
      return;
    case StmtKind::Local:
      if (Value* v = eval(s.value)) {
        write(locals_[s.var->i] = new_slot(v->getType()), v);
      }
      return;
    case StmtKind::Assign: {
      auto slot = locals_.find(s.var->i);
      if (slot == locals_.end()) return fail("assigns a variable that is no local");
      if (Value* v = eval(s.value)) write(slot->second, v);
      return;
    }
    case StmtKind::Fault: {
      Value* c = eval(s.cond);
      if (!c) return;
      if (c->getType()->isVectorTy()) c = b_.CreateOrReduce(c);
      return fault_if(c, s.fault);
    }
  }
}

// `on_fault`: where a kernel goes on that does not return at a fault; null: with what comes next.
void KernelEmitter::fault_if(Value* condition, int32_t code, llvm::BasicBlock* on_fault) {
  llvm::BasicBlock* stop = new_block("fault");
  llvm::BasicBlock* next = new_block("next");
  b_.CreateCondBr(condition, stop, next, llvm::MDBuilder(context_).createUnlikelyBranchWeights());
  b_.SetInsertPoint(stop);
  frame_.fault(b_, code, on_fault ? on_fault : next);
  b_.SetInsertPoint(next);
}

// The body once, for one value of the variable. What depends on that does not outlive it.
void KernelEmitter::body_once(const Stmt& s, Value* var) {
  const size_t mark = open_scope();
  vars_[s.var->i] = var;
  block(s.body);
  end_statement();
  close_scope(mark);
}

void KernelEmitter::for_loop(const Stmt& s) {
  if (s.step <= 0) return fail("a loop with a step below 1");
  if (kernel_->lanes) ranges_.define(s);
  if (s.for_kind == loop::ForKind::Unroll) {
    if (!s.begin->is_const() || !s.end->is_const()) return fail("unrolls a loop without constant bounds");
    for (int64_t i = s.begin->i; i < s.end->i && status_.ok(); i += s.step) body_once(s, b_.getInt64(static_cast<uint64_t>(i)));
    return;
  }
  if (s.for_kind == loop::ForKind::Lanes) {
    if (!lane_) return fail("a loop over lanes in a kernel for processors");
    if (!s.begin->is_int(0) || !s.end->is_int(kernel_->lanes) || s.step != 1) return fail("a loop over other lanes than those of a block");
    return body_once(s, lane_);
  }
  if (frame_.is_one_tile() && kernel_->tile_begin && s.begin == kernel_->tile_begin && s.end == kernel_->tile_end)
    return body_once(s, vars_.at(kernel_->tile_begin->i));
  Value* begin = eval(s.begin);
  Value* end = begin ? eval(s.end) : nullptr;
  if (!end) return;
  if (kernel_->lanes) powers_[s.var->i] = std::min(power_dividing(s.begin, kMostAligned), static_cast<uint64_t>(s.step & -s.step));
  llvm::BasicBlock* body = new_block("loop");
  llvm::BasicBlock* exit = new_block("done");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  if (s.begin->is_const() && s.end->is_const()) {
    if (s.begin->i >= s.end->i) {
      b_.CreateBr(exit);
      b_.SetInsertPoint(exit);
      body->eraseFromParent();
      return;
    }
    b_.CreateBr(body);
  } else {
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), body, exit);
  }
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  vars_[s.var->i] = i;
  end_statement();
  const size_t mark = open_scope();
  block(s.body);
  close_scope(mark);
  Value* next = b_.CreateNSWAdd(i, b_.getInt64(static_cast<uint64_t>(s.step)));
  i->addIncoming(next, b_.GetInsertBlock());
  llvm::BranchInst* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, exit);
  if (s.rolled) frame_.keep_rolled(*back);
  b_.SetInsertPoint(exit);
}

void KernelEmitter::while_loop(const Stmt& s) {
  Value* bound = eval(s.bound);
  if (!bound) return;
  end_statement();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* head = new_block("while");
  llvm::BasicBlock* body = new_block("body");
  llvm::BasicBlock* exit = new_block("done");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* count = b_.CreatePHI(b_.getInt64Ty(), 2);
  count->addIncoming(b_.getInt64(0), before);
  const size_t mark = open_scope();
  Value* condition = eval(s.cond);
  if (!condition) return;
  end_statement();
  b_.CreateCondBr(condition, body, exit);
  b_.SetInsertPoint(body);
  fault_if(b_.CreateICmpSGE(count, bound), MLRUN_FAULT_BOUND, exit);
  block(s.body);
  close_scope(mark);
  count->addIncoming(b_.CreateNSWAdd(count, b_.getInt64(1)), b_.GetInsertBlock());
  frame_.keep_rolled(*b_.CreateBr(head));
  b_.SetInsertPoint(exit);
}

void KernelEmitter::if_else(const Stmt& s) {
  Value* condition = eval(s.cond);
  if (!condition) return;
  end_statement();
  llvm::BasicBlock* yes = new_block("then");
  llvm::BasicBlock* no = s.orelse.empty() ? nullptr : new_block("else");
  llvm::BasicBlock* exit = new_block("join");
  b_.CreateCondBr(condition, yes, no ? no : exit);
  b_.SetInsertPoint(yes);
  block(s.body);
  b_.CreateBr(exit);
  if (no) {
    b_.SetInsertPoint(no);
    block(s.orelse);
    b_.CreateBr(exit);
  }
  b_.SetInsertPoint(exit);
}

template <class Instruction>
Instruction* KernelEmitter::annotate(Instruction* access, uint32_t array) {
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, buffers_[array].scope);
  if (buffers_[array].no_alias) access->setMetadata(llvm::LLVMContext::MD_noalias, buffers_[array].no_alias);
  // What no lane writes a barrier does not change: it is read once, not behind each.
  if (llvm::isa<llvm::LoadInst>(access) && kernel_->lanes > 0 && array < kernel_->params.size() && !kernel_->params[array].written)
    access->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
  return access;
}

llvm::Value* KernelEmitter::element_pointer(uint32_t array, DType dtype, Value* index) {
  return b_.CreateInBoundsGEP(mem_scalar(dtype), buffers_[array].base, index);
}

// A power of two up to `most` that divides an index, from its sums and products and the variables in it; what else it is made of may be odd.
uint64_t KernelEmitter::power_dividing(const Expr* index, uint64_t most, int depth) const {
  const auto of_number = [&](int64_t n) {
    const auto bits = static_cast<uint64_t>(n);
    return bits == 0 ? most : std::min(most, bits & ~(bits - 1));
  };
  switch (index->op) {
    case ir::Op::Const: return of_number(index->i);
    case ir::Op::Sym: return of_number(index->sym->multiple);
    case ir::Op::Var: {
      const auto var = powers_.find(index->i);
      return var == powers_.end() ? 1 : std::min(most, var->second);
    }
    case ir::Op::Add: case ir::Op::Sub: case ir::Op::Mul: case ir::Op::Min: case ir::Op::Max: break;
    default: return 1;
  }
  if (depth == 0) return 1;
  const uint64_t a = power_dividing(index->args[0], most, depth - 1), b = power_dividing(index->args[1], most, depth - 1);
  return index->op == ir::Op::Mul ? std::min(most, a * b) : std::min(a, b);
}

// Of an access. On devices, buffers and memory that lanes share begin at multiples of 16 bytes: neighbours that do, too, are one access there.
llvm::Align KernelEmitter::alignment(uint32_t array, ir::Type type, const Expr* index) const {
  const uint64_t element = bytes_of(type.dtype);
  const size_t num_params = kernel_->params.size();
  const bool is_param = array < num_params;
  const bool begins_there = is_param ? kernel_->lanes > 0 : kernel_->locals[array - num_params].space == loop::Space::Shared;
  if (!begins_there || index->type.lanes > 1) return llvm::Align(element);
  // Of bytes and of pairs the code generator for PTX has loads of its own, which it takes apart through memory.
  if (is_param && is_ptx(*can_.target) && (element == 1 || type.lanes == 2)) return llvm::Align(element);
  return llvm::Align(std::min(power_dividing(index, kMostAligned) * element, kMostAligned));
}

llvm::Value* KernelEmitter::from_memory(Value* v, ir::Type type) {
  if (type.dtype == DType::Bool) return b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (bits_of(type.dtype) < 8) return b_.CreateTrunc(v, reg_type(type));
  return v;
}

llvm::Value* KernelEmitter::to_memory(Value* v, ir::Type type) {
  llvm::Type* memory = with_lanes(mem_scalar(type.dtype), type.lanes);
  if (type.dtype == DType::Bool || bits_of(type.dtype) < 8)
    return is_signed_int(type.dtype) ? b_.CreateSExt(v, memory) : b_.CreateZExt(v, memory);
  return v;
}

// Whether four bytes of PTX are one load: of the word that they are, which is taken apart by shifts. What is narrowed to less than 8 bits is not:
// of such a word the code generator would do it by way of a stack.
bool KernelEmitter::is_word_of_bytes(const Expr& e) const {
  const auto is_narrow = [](const loop::Param& p) { return bits_of(p.dtype) < 8 && p.dtype != DType::Bool; };
  const bool is_ours = e.array < kernel_->params.size() && kernel_->lanes > 0 && is_ptx(*can_.target) && std::none_of(kernel_->params.begin(), kernel_->params.end(), is_narrow);
  return is_ours && e.type.lanes == 4 && bits_of(e.type.dtype) == 8 && e.args[0]->type.lanes == 1 && power_dividing(e.args[0], 4) == 4;
}

llvm::Value* KernelEmitter::load(const Expr& e) {
  if (e.array >= buffers_.size() || e.args.empty()) return fail("loads from an unknown buffer"), nullptr;
  Value* index = arg(e, 0);
  Value* mask = e.args.size() > 1 ? arg(e, 1) : nullptr;
  llvm::Type* scalar = mem_scalar(e.type.dtype);
  llvm::Type* type = with_lanes(scalar, e.type.lanes);
  const llvm::Align align = alignment(e.array, e.type, e.args[0]);
  Value* pointer = element_pointer(e.array, e.type.dtype, index);
  if (index->getType()->isVectorTy()) {
    if (!mask) mask = b_.getAllOnesMask(llvm::ElementCount::getFixed(e.type.lanes));
    return from_memory(annotate(b_.CreateMaskedGather(type, pointer, align, mask, llvm::Constant::getNullValue(type)),
                                e.array), e.type);
  }
  if (!mask && is_word_of_bytes(e)) {
    Value* word = annotate(b_.CreateAlignedLoad(b_.getInt32Ty(), pointer, llvm::Align(power_dividing(e.args[0], kMostAligned))), e.array);
    return from_memory(b_.CreateBitCast(word, type), e.type);
  }
  if (!mask) return from_memory(annotate(b_.CreateAlignedLoad(type, pointer, align), e.array), e.type);
  if (mask->getType()->isVectorTy())
    return from_memory(annotate(b_.CreateMaskedLoad(type, pointer, align, mask, llvm::Constant::getNullValue(type)),
                                e.array), e.type);
  // One condition for the whole access: a branch.
  llvm::BasicBlock* from = b_.GetInsertBlock();
  llvm::BasicBlock* yes = new_block("load");
  llvm::BasicBlock* exit = new_block("loaded");
  b_.CreateCondBr(mask, yes, exit);
  b_.SetInsertPoint(yes);
  Value* loaded = annotate(b_.CreateAlignedLoad(type, pointer, align), e.array);
  b_.CreateBr(exit);
  b_.SetInsertPoint(exit);
  llvm::PHINode* phi = b_.CreatePHI(type, 2);
  phi->addIncoming(loaded, yes);
  phi->addIncoming(llvm::Constant::getNullValue(type), from);
  return from_memory(phi, e.type);
}

void KernelEmitter::prefetch(const Stmt& s) {
  if (!frame_.has_prefetch()) return;
  if (s.array >= buffers_.size() || s.index.size() != 1) return fail("prefetches from an unknown buffer");
  Value* index = eval(s.index[0]);
  if (!index) return;
  // The address may lie outside of the buffer: no "in bounds".
  Value* pointer = b_.CreateGEP(mem_scalar(buffers_[s.array].dtype), buffers_[s.array].base, index);
  constexpr uint32_t kRead = 0, kSecondLevel = 2, kData = 1;
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()}, {pointer, b_.getInt32(kRead), b_.getInt32(kSecondLevel), b_.getInt32(kData)});
}

void KernelEmitter::store(const Stmt& s) {
  if (s.array >= buffers_.size() || s.index.size() != 1) return fail("stores to an unknown buffer");
  Value* value = eval(s.value);
  Value* index = value ? eval(s.index[0]) : nullptr;
  Value* mask = index && s.cond ? eval(s.cond) : nullptr;
  if (!index || (s.cond && !mask)) return;
  const ir::Type type = s.value->type;
  const llvm::Align align = alignment(s.array, type, s.index[0]);
  value = to_memory(value, type);
  Value* pointer = element_pointer(s.array, type.dtype, index);
  if (index->getType()->isVectorTy()) {
    if (!mask) mask = b_.getAllOnesMask(llvm::ElementCount::getFixed(type.lanes));
    annotate(b_.CreateMaskedScatter(value, pointer, align, mask), s.array);
  } else if (mask && mask->getType()->isVectorTy()) {
    annotate(b_.CreateMaskedStore(value, pointer, align, mask), s.array);
  } else if (mask) {
    llvm::BasicBlock* yes = new_block("store");
    llvm::BasicBlock* exit = new_block("stored");
    b_.CreateCondBr(mask, yes, exit);
    b_.SetInsertPoint(yes);
    annotate(b_.CreateAlignedStore(value, pointer, align), s.array);
    b_.CreateBr(exit);
    b_.SetInsertPoint(exit);
  } else {
    annotate(b_.CreateAlignedStore(value, pointer, align), s.array);
  }
}

}  // namespace mlc::targets
