// Expressions: types, the order of evaluation, what is remembered for how long. The operations are in expr_ops.cpp.
#include <algorithm>

#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

using ir::Op;

namespace {

constexpr uint8_t kLoads = 1;    // reads memory
constexpr uint8_t kMutable = 2;  // reads a local
constexpr unsigned kMaxLazyDepth = 200;

}  // namespace

llvm::Type* KernelEmitter::with_lanes(llvm::Type* scalar, unsigned lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

llvm::Type* KernelEmitter::reg_scalar(DType t) {
  if (t == DType::F64) return b_.getDoubleTy();
  if (t == DType::F32) return b_.getFloatTy();
  if (t == DType::Bool) return b_.getInt1Ty();
  return b_.getIntNTy(bits_of(t) ? bits_of(t) : 8);
}

llvm::Type* KernelEmitter::reg_type(ir::Type type) { return with_lanes(reg_scalar(type.dtype), type.lanes); }

llvm::Type* KernelEmitter::mem_scalar(DType t) {
  if (t == DType::Bool || bits_of(t) < 8) return b_.getInt8Ty();
  return reg_scalar(t);
}

uint8_t KernelEmitter::flags_of(const Expr* root) {
  std::vector<const Expr*> stack = {root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    if (flags_.count(e)) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    uint8_t flags = e->op == Op::Load ? kLoads : e->op == Op::Var && locals_.count(e->i) ? kMutable : 0;
    for (const Expr* a : e->args) {
      auto known = flags_.find(a);
      if (known == flags_.end()) {
        stack.push_back(a);
        ready = false;
      } else {
        flags |= known->second;
      }
    }
    if (!ready) continue;
    flags_[e] = flags;
    stack.pop_back();
  }
  return flags_[root];
}

bool KernelEmitter::is_lazy(const Expr& e) {
  if (e.args.empty() || e.args[0]->type.lanes != 1) return false;
  if (e.op == Op::Select) return ((flags_of(e.args[1]) | flags_of(e.args[2])) & kLoads) != 0;
  if (e.op == Op::And || e.op == Op::Or) return (flags_of(e.args[1]) & kLoads) != 0;
  return false;
}

void KernelEmitter::remember(const Expr* e, Value* v) {
  cache_[e] = v;
  (in_scratch_ || flags_of(e) ? statement_ : log_).push_back(e);
  if (in_scratch_ && !e->args.empty() && uses_[e] > 1) write(shared_[e] = new_slot(v->getType()), v);
}

void KernelEmitter::close_scope(size_t mark) {
  while (log_.size() > mark) {
    cache_.erase(log_.back());
    log_.pop_back();
  }
}

void KernelEmitter::end_statement() {
  for (const Expr* e : statement_) cache_.erase(e);
  statement_.clear();
  uses_.clear();
}

llvm::Value* KernelEmitter::eval(const Expr* root) {
  if (!status_.ok()) return nullptr;
  if (!root) return fail("a missing expression"), nullptr;
  flags_of(root);
  if (in_scratch_) plan_statement(root);
  std::vector<const Expr*> stack = {root}, missing;
  while (!stack.empty() && status_.ok()) {
    const Expr* e = stack.back();
    if (cache_.count(e)) {
      stack.pop_back();
      continue;
    }
    const size_t eager = is_lazy(*e) ? 1 : e->args.size();
    missing.clear();
    for (size_t k = eager; k-- > 0;)
      if (!cache_.count(e->args[k])) missing.push_back(e->args[k]);
    if (in_scratch_) order_operands(missing);
    stack.insert(stack.end(), missing.begin(), missing.end());
    if (!missing.empty()) continue;
    Value* v = eager == e->args.size() ? node(*e) : eval_lazy(e);
    if (!v) {
      fail("an operation that this level does not have");
      break;
    }
    remember(e, v);
    stack.pop_back();
  }
  return status_.ok() ? value_of(root) : nullptr;
}

// The condition is evaluated; each arm gets its own blocks, and what it computes is forgotten after it.
llvm::Value* KernelEmitter::eval_lazy(const Expr* e) {
  if (++lazy_depth_ > kMaxLazyDepth) return fail("conditional reads are nested too deeply"), nullptr;
  llvm::BasicBlock* yes = new_block("yes");
  llvm::BasicBlock* no = new_block("no");
  llvm::BasicBlock* exit = new_block("either");
  b_.CreateCondBr(arg(*e, 0), yes, no);
  llvm::PHINode* phi = llvm::PHINode::Create(reg_type(e->type), 2);
  auto arm = [&](llvm::BasicBlock* at, const Expr* value, bool constant) {
    b_.SetInsertPoint(at);
    const size_t mark = open_scope();
    const size_t statement_mark = statement_.size();
    Value* v = value ? eval(value) : b_.getInt1(constant);
    if (v) phi->addIncoming(v, b_.GetInsertBlock());
    close_scope(mark);
    while (statement_.size() > statement_mark) {
      cache_.erase(statement_.back());
      statement_.pop_back();
    }
    b_.CreateBr(exit);
  };
  const bool select = e->op == Op::Select;
  arm(yes, select || e->op == Op::And ? e->args[1] : nullptr, true);
  arm(no, select ? e->args[2] : e->op == Op::Or ? e->args[1] : nullptr, false);
  b_.SetInsertPoint(exit);
  b_.Insert(phi);
  --lazy_depth_;
  return phi;
}

llvm::Value* KernelEmitter::node(const Expr& e) {
  switch (e.op) {
    case Op::Const: return constant(e);
    case Op::Sym: {
      auto sym = syms_.find(e.sym);
      if (sym == syms_.end()) return fail("reads a symbol that is no launch argument"), nullptr;
      return sym->second;
    }
    case Op::Var: {
      if (auto local = locals_.find(e.i); local != locals_.end()) return read(local->second);
      auto var = vars_.find(e.i);
      if (var == vars_.end()) return fail("reads a variable outside of its block"), nullptr;
      return var->second;
    }
    case Op::Load: return load(e);
    case Op::Neg: case Op::Abs: case Op::Not: case Op::BitNot: case Op::Floor: case Op::Ceil: case Op::Trunc:
    case Op::Rint: case Op::Sqrt: case Op::IsNan: case Op::IsInf: case Op::Tf32: case Op::Exp2: return unary(e, arg(e, 0));
    case Op::Cast: {
      Value* v = codes_as_f32(e);
      return v ? v : cast(arg(e, 0), e.args[0]->type.dtype, e.type.dtype);
    }
    case Op::SatCast: {
      Value* v = codes(coding_of(e));
      return v ? v : sat_cast(arg(e, 0), e.args[0]->type.dtype, e.type.dtype);
    }
    case Op::Bitcast: return bitcast(arg(e, 0), e.args[0]->type, e.type);
    case Op::BitXor: {
      Value* v = codes(flipped_coding_of(e));
      return v ? v : binary(e, arg(e, 0), arg(e, 1));
    }
    case Op::BitOr: {
      Value* v = word_of_bytes(e);
      if (!v) v = pair_of_rounded(e);
      if (!v) v = halves_of_words(e);
      return v ? v : binary(e, arg(e, 0), arg(e, 1));
    }
    case Op::Add: case Op::Sub: case Op::Mul: case Op::Div: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv:
    case Op::TruncMod: case Op::Min: case Op::Max: case Op::Pow: case Op::And: case Op::Or: case Op::BitAnd:
    case Op::Shl: case Op::Shr: case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne:
      return binary(e, arg(e, 0), arg(e, 1));
    case Op::Select: return b_.CreateSelect(arg(e, 0), arg(e, 1), arg(e, 2));
    case Op::Fma: {
      const DType t = e.type.dtype;
      Value *a = arg(e, 0), *b = arg(e, 1), *c = arg(e, 2);
      if (!is_float(t)) return b_.CreateAdd(b_.CreateMul(a, b), c);
      a = to_f32(a, t), b = to_f32(b, t), c = to_f32(c, t);
      Value* v = can_.fma ? intrinsic(llvm::Intrinsic::fma, {a, b, c}) : b_.CreateFAdd(b_.CreateFMul(a, b), c);
      return from_f32(v, t);
    }
    case Op::Splat:
      if (e.type.lanes == e.args[0]->type.lanes) return arg(e, 0);
      if (e.args[0]->type.lanes > 1) return splat_group(arg(e, 0), e.type, e.args[0]->type.lanes);
      return b_.CreateVectorSplat(e.type.lanes, arg(e, 0));
    case Op::Ramp: {
      llvm::Type* type = reg_type(e.type);
      if (e.type.lanes == 1) return arg(e, 0);
      std::vector<llvm::Constant*> steps;
      for (unsigned k = 0; k < e.type.lanes; ++k)
        steps.push_back(llvm::ConstantInt::get(type->getScalarType(), static_cast<uint64_t>(e.i) * k, true));
      Value* ramp = llvm::ConstantVector::get(steps);
      if (is_float(e.type.dtype)) return fail("a ramp of floats"), nullptr;
      return b_.CreateAdd(b_.CreateVectorSplat(e.type.lanes, arg(e, 0)), ramp);
    }
    case Op::Extract:
      if (e.args[0]->type.lanes == 1) return arg(e, 0);
      if (e.i < 0 || e.i >= e.args[0]->type.lanes) return fail("extracts a lane that does not exist"), nullptr;
      return b_.CreateExtractElement(arg(e, 0), static_cast<uint64_t>(e.i));
    case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes: return reduce(e, arg(e, 0));
    case Op::Widen: {
      if (Value* v = shuffled(e)) return v;
      std::vector<Value*> parts;
      for (unsigned k = 0; k < e.args.size(); ++k) parts.push_back(arg(e, k));
      return concatenate(std::move(parts));
    }
    case Op::Dot: return dot(e);
    case Op::Dim: case Op::Fold: case Op::Field: case Op::Exp: case Op::Log: case Op::Sin: case Op::Cos: case Op::Tan:
    case Op::Asin: case Op::Acos: case Op::Atan: case Op::Sinh: case Op::Cosh: case Op::Tanh: case Op::Asinh:
    case Op::Acosh: case Op::Atanh: case Op::Erf:
      return nullptr;
  }
  return nullptr;
}

// Lanes of few vectors in any order. Null: it is something else.
llvm::Value* KernelEmitter::shuffled(const Expr& e) {
  constexpr size_t kMostVectors = 4;
  std::vector<const Expr*> from;
  std::vector<int> lanes;
  for (const Expr* part : e.args) {
    if (part->op != Op::Extract || part->args[0]->type.lanes == 1 || !cache_.count(part->args[0]) || part->i < 0 || part->i >= part->args[0]->type.lanes) return nullptr;
    const auto at = std::find(from.begin(), from.end(), part->args[0]);
    lanes.push_back(static_cast<int>((at - from.begin()) * part->args[0]->type.lanes + part->i));
    if (at == from.end()) from.push_back(part->args[0]);
    if (from.size() > kMostVectors || part->args[0]->type != from[0]->type) return nullptr;
  }
  std::vector<Value*> vectors;
  for (const Expr* v : from) vectors.push_back(value_of(v));
  while (vectors.size() & (vectors.size() - 1)) vectors.push_back(llvm::PoisonValue::get(vectors[0]->getType()));
  return b_.CreateShuffleVector(concatenate(std::move(vectors)), lanes);
}

llvm::Value* KernelEmitter::concatenate(std::vector<Value*> parts) {
  for (Value*& v : parts)
    if (!v->getType()->isVectorTy())
      v = b_.CreateInsertElement(llvm::PoisonValue::get(llvm::FixedVectorType::get(v->getType(), 1)), v, uint64_t{0});
  while (parts.size() > 1) {  // pairwise
    std::vector<Value*> next;
    for (size_t k = 0; k + 1 < parts.size(); k += 2) {
      auto lanes = [](Value* v) { return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements(); };
      Value *a = parts[k], *b = parts[k + 1];
      const unsigned n = lanes(a), m = lanes(b);
      if (m < n) {  // operands of a shuffle have equal types: widen the shorter one first
        std::vector<int> pad(n, -1);
        for (unsigned j = 0; j < m; ++j) pad[j] = static_cast<int>(j);
        b = b_.CreateShuffleVector(b, pad);
      }
      std::vector<int> both;
      for (unsigned j = 0; j < n + m; ++j) both.push_back(static_cast<int>(j));
      next.push_back(b_.CreateShuffleVector(a, b, both));
    }
    if (parts.size() % 2) next.push_back(parts.back());
    parts = std::move(next);
  }
  return parts.empty() ? nullptr : parts[0];
}

}  // namespace mlc::targets
