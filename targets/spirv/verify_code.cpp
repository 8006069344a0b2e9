// The function of a module: each instruction's form and types, and control flow in structured order.
//
// Blocks come in the order in which we write them: a construct's merge stands behind all of it, an else-arm behind the other, the block
// that turns back last in its loop. So what is visible is a stack: an id that an arm or a loop defined is gone behind it, and whatever is
// visible dominates.
#include <algorithm>

#include "targets/spirv/verifier.h"

namespace mlc::targets::spirv {

void Verifier::function() {
  Instruction i;
  if (!next(i)) return;
  if (i.op != Op::Function || i.args.size() != 4 || i.args[1] != function_ || i.args[2] != 0) return fail("another function than the entry point");
  const Thing *result = type(i.args[0]), *signature = type(i.args[3]);
  if (!result || !signature || result->op != Op::TypeVoid || signature->op != Op::TypeFunction) return fail("a function that takes or gives something");
  define(function_, Kind::Other, i.op, 0);
  if (!next(i) || i.op != Op::Label || !sized(i, 1) || !define(i.args[0], Kind::Label, i.op, 0)) return fail("a function without a block");
  block_ = i.args[0];
  while (peek(Op::Variable) && next(i)) local_variable(i);
  while (status_.ok() && !peek(Op::FunctionEnd) && next(i)) instruction(i);
  if (!next(i)) return;
  if (!sized(i, 0) || at_ != words_.size() || block_ || expected_ || !constructs_.empty()) return fail("a function that does not end");
  if (!flow_.holds(static_cast<uint32_t>(things_.size()))) fail("a barrier, or a return before one, where lanes of a block may have parted");
}

void Verifier::local_variable(const Instruction& i) {
  if (!sized(i, 3)) return;
  const Thing* pointer = type(i.args[0]);
  if (!pointer || pointer->op != Op::TypePointer || pointer->where != StorageClass::Function || i.args[2] != static_cast<uint32_t>(StorageClass::Function))
    return fail("a variable that is not of the function");
  const Thing& held = things_[pointer->element];
  const bool number = is_word(pointer->element) || is_float(pointer->element) || is_bool(pointer->element);
  if (!number && held.op != Op::TypeArray && !is_matrix(pointer->element, MatrixUse::Accumulator)) return fail("a variable of no numbers");
  private_cells_ += held.op == Op::TypeCooperativeMatrix ? matrices_.side * matrices_.side : std::max(1u, held.count);
  if (private_cells_ > kMostPrivateCells) return fail("variables of more than " + std::to_string(kMostPrivateCells) + " numbers");
  if (Thing* v = define(i.args[1], Kind::Variable, i.op, i.args[0])) v->where = StorageClass::Function, v->element = pointer->element, v->root = i.args[1];
}

void Verifier::instruction(const Instruction& i) {
  if (i.op == Op::Label) return sized(i, 1) ? label(i.args[0]) : void();
  if (!block_) return fail("an instruction outside of a block");
  // A merge is followed by its branch.
  if ((selection_merge_ && i.op != Op::BranchConditional) || (loop_merged_ && i.op != Op::Branch)) return fail("a merge without its branch");
  if (must_loop_ && i.op != Op::LoopMerge) return fail("a jump to a block that begins no loop");
  switch (i.op) {
    case Op::SelectionMerge:
      if (sized(i, 2) && i.args[1] == 0 && fresh_label(i.args[0])) selection_merge_ = i.args[0];
      else fail("a selection with another hint");
      return;
    case Op::LoopMerge: return loop_merge(i);
    case Op::Branch: return sized(i, 1) ? branch(i.args[0]) : void();
    case Op::BranchConditional: return branch_conditional(i);
    case Op::Return: return sized(i, 0) ? return_() : void();
    default: in_block_ = true; return effect(i);
  }
}

void Verifier::effect(const Instruction& i) {
  if (i.op == Op::Store) return store(i);
  if (i.op == Op::ControlBarrier) return barrier(i);
  if (i.op == Op::CooperativeMatrixStore) return matrix_store(i);
  if (i.args.size() < 3) return fail("instruction " + std::to_string(static_cast<int>(i.op)) + " is not allowed");
  const Id result = i.args[0], id = i.args[1];
  if (!type(result)) return;
  Thing made;
  made.type = result;
  bool right = false;
  switch (i.op) {
    case Op::AccessChain: right = access_chain(i, made); break;
    case Op::Load: right = load(i, result); break;
    case Op::CooperativeMatrixLoad: right = matrix_load(i, result); break;
    case Op::CooperativeMatrixMulAdd: right = matrix_product(i, result); break;
    case Op::AtomicCompareExchange: right = exchange(i, result); break;
    case Op::ExtInst: right = extended_set(i, result); break;
    case Op::GroupNonUniformShuffleXor: case Op::GroupNonUniformIAdd: case Op::GroupNonUniformIMul: case Op::GroupNonUniformSMin: case Op::GroupNonUniformUMin:
    case Op::GroupNonUniformSMax: case Op::GroupNonUniformUMax: case Op::GroupNonUniformLogicalAnd: case Op::GroupNonUniformLogicalOr:
      right = between_lanes(i, result);
      break;
    case Op::ConvertFToU: case Op::ConvertFToS: case Op::ConvertSToF: case Op::ConvertUToF: case Op::UConvert: case Op::SConvert: case Op::FConvert:
    case Op::Bitcast: right = conversion(i, result); break;
    case Op::IEqual: case Op::INotEqual: case Op::UGreaterThan: case Op::SGreaterThan: case Op::UGreaterThanEqual: case Op::SGreaterThanEqual:
    case Op::ULessThan: case Op::SLessThan: case Op::ULessThanEqual: case Op::SLessThanEqual: case Op::FOrdEqual: case Op::FUnordNotEqual:
    case Op::FOrdLessThan: case Op::FOrdGreaterThan: case Op::FOrdLessThanEqual: case Op::FOrdGreaterThanEqual:
      right = is_bool(result) && comparison(i);
      break;
    default: right = arithmetic(i, result); break;
  }
  if (!status_.ok()) return;
  if (!right) return fail("instruction " + std::to_string(static_cast<int>(i.op)) + " is unknown, or not of its operands' types");
  const bool rounds = i.op == Op::FAdd || i.op == Op::FSub || i.op == Op::FMul;
  if (rounds != decorated(id, Decoration::NoContraction)) return fail("a sum or a product of floats that may be contracted");
  note(i, id, made.root);
  if (Thing* t = define(id, Kind::Value, i.op, result)) {
    t->root = made.root;
    defined_.push_back(id);
  }
}

// An input that is not the same in all lanes of a block.
bool Verifier::differs_by_lane(Id variable) {
  if (!variable || !decorated(variable, Decoration::BuiltIn)) return false;
  const auto builtin = static_cast<BuiltIn>(decorations_[variable].builtin);
  return builtin != BuiltIn::WorkgroupId && builtin != BuiltIn::SubgroupSize;
}

// What differs between lanes, for the audit of barriers.
void Verifier::note(const Instruction& i, Id id, Id root) {
  std::vector<uint32_t> from;
  const bool is_dot = i.op == Op::SDot || i.op == Op::UDot || i.op == Op::SUDot;  // whose last word is no id
  const bool reads = i.op == Op::Load || i.op == Op::CooperativeMatrixLoad;  // likewise, of memory
  for (const Id a : i.args.subspan(i.op == Op::ExtInst ? 4 : 2, is_dot ? 2 : reads ? 1 : std::dynamic_extent))
    if (a < things_.size()) from.push_back(a);
  if (i.op == Op::AtomicCompareExchange || (i.op == Op::Load && differs_by_lane(things_[i.args[2]].root))) flow_.source(id);
  // Through a pointer into an array of a lane: what the array holds.
  if (i.op == Op::Load && things_[i.args[2]].root) from.push_back(things_[i.args[2]].root);
  if (root && things_[root].where != StorageClass::Function) from.erase(from.begin());
  flow_.value(id, std::move(from));
}

bool Verifier::has_type(Words values, Id t) {
  for (const Id v : values) {
    const Thing* operand = used(v);
    if (!operand || operand->type != t) return false;
  }
  return true;
}

bool Verifier::arithmetic(const Instruction& i, Id result) {
  const Words operands = i.args.subspan(2);
  const auto all = [&](size_t n, bool kind) { return kind && operands.size() == n && has_type(operands, result); };
  switch (i.op) {
    case Op::SNegate: case Op::Not: return all(1, is_word(result));
    case Op::FNegate: return all(1, is_float(result));
    case Op::IAdd: case Op::ISub: case Op::IMul: case Op::UDiv: case Op::SDiv: case Op::UMod: case Op::BitwiseOr: case Op::BitwiseXor: case Op::BitwiseAnd:
      return all(2, is_word(result));
    case Op::FAdd: case Op::FSub: case Op::FMul: case Op::FDiv: return all(2, is_float(result));
    case Op::LogicalEqual: case Op::LogicalNotEqual: case Op::LogicalOr: case Op::LogicalAnd: return all(2, is_bool(result));
    case Op::LogicalNot: return all(1, is_bool(result));
    case Op::ShiftRightLogical: case Op::ShiftRightArithmetic: case Op::ShiftLeftLogical: {
      if (operands.size() != 2 || !is_word(result) || !has_type(operands.first(1), result)) return false;
      const Thing* amount = used(operands[1]);
      return amount && is_word(amount->type);
    }
    case Op::SDot: case Op::UDot: case Op::SUDot:
      return has(Capability::DotProduct) && has(Capability::DotProductInput4x8BitPacked) && operands.size() == 3 && is_int(result, 32) &&
             has_type(operands.first(2), result) && operands[2] == kPacked4x8;
    case Op::Select: {
      if (operands.size() != 3 || !(is_word(result) || is_float(result) || is_bool(result))) return false;
      const Thing* condition = used(operands[0]);
      return condition && is_bool(condition->type) && has_type(operands.subspan(1), result);
    }
    default: return false;
  }
}

bool Verifier::comparison(const Instruction& i) {
  if (i.args.size() != 4) return false;
  const Thing* a = used(i.args[2]);
  if (!a || !has_type(i.args.subspan(3), a->type)) return false;
  return i.op <= Op::SLessThanEqual ? is_word(a->type) : is_float(a->type);
}

// Integers below 32 bits are converted and nothing else.
bool Verifier::conversion(const Instruction& i, Id result) {
  if (i.args.size() != 3) return false;
  const Thing* a = used(i.args[2]);
  if (!a || a->type == 0) return false;
  const Id from = a->type;
  const Thing &source = things_[from], &target = things_[result];
  const bool ints = source.op == Op::TypeInt && target.op == Op::TypeInt;
  switch (i.op) {
    case Op::ConvertFToU: case Op::ConvertFToS: return is_float(from) && is_word(result);
    case Op::ConvertSToF: case Op::ConvertUToF: return is_word(from) && is_float(result);
    case Op::SConvert: return ints && source.width == 32 && target.width == 64;
    case Op::UConvert: return ints && source.width != target.width && (source.width == 32 || target.width == 32);
    case Op::FConvert: return is_float(from) && is_float(result) && from != result;
    default: return source.width == target.width && ((is_word(from) && is_float(result)) || (is_float(from) && is_word(result)));
  }
}

bool Verifier::extended_set(const Instruction& i, Id result) {
  if (i.args.size() < 5 || i.args[2] != glsl_ || !is_float(result) || !has_type(i.args.subspan(4), result)) return false;
  switch (static_cast<Glsl>(i.args[3])) {
    case Glsl::RoundEven: case Glsl::Trunc: case Glsl::FAbs: case Glsl::Floor: case Glsl::Ceil: case Glsl::Sqrt: return i.args.size() == 5;
    case Glsl::Fma: return i.args.size() == 7;
  }
  return false;
}

bool Verifier::is_constant(Id id, uint64_t value) {
  const Thing* t = used(id);
  return t && t->op == Op::Constant && is_int(t->type, 32) && t->value == value;
}

// To an element of a buffer, of shared memory or of an array of a lane, to a push constant, to a part of the block's number.
bool Verifier::access_chain(const Instruction& i, Thing& made) {
  const Thing& pointer = things_[made.type];
  const Thing* base = used(i.args[2]);
  if (!base || base->kind != Kind::Variable || pointer.op != Op::TypePointer || pointer.where != base->where) return false;
  made.root = i.args[2];
  const Thing& held = things_[base->element];
  const Words index = i.args.subspan(3);
  const Thing* last = index.empty() ? nullptr : used(index.back());
  if (!last || !is_int(last->type, 32)) return false;
  switch (base->where) {
    case StorageClass::StorageBuffer: return index.size() == 2 && is_constant(index[0], 0) && pointer.element == things_[held.element].element;
    case StorageClass::PushConstant:
      return index.size() == 1 && last->op == Op::Constant && last->value < held.count && pointer.element == words_[held.root + 2 + last->value];
    case StorageClass::Input: return index.size() == 1 && held.op == Op::TypeVector && last->op == Op::Constant && last->value < held.count && pointer.element == held.element;
    case StorageClass::Workgroup: case StorageClass::Function: return index.size() == 1 && held.op == Op::TypeArray && pointer.element == held.element;
  }
  return false;
}

bool Verifier::load(const Instruction& i, Id result) {
  if (i.args.size() < 3) return false;
  const Thing* pointer = used(i.args[2]);
  if (!pointer || !has_memory_words(i.args.subspan(3), pointer->root)) return false;
  if (pointer->root == 0 || things_[pointer->type].op != Op::TypePointer || things_[pointer->type].element != result) return false;
  return things_[result].op == Op::TypeInt || is_float(result) || is_bool(result) || (is_matrix(result) && things_[pointer->root].where == StorageClass::Function);
}

bool Verifier::may_write(Id variable) {
  const Thing& v = things_[variable];
  if (v.where == StorageClass::StorageBuffer) return !decorated(variable, Decoration::NonWritable);
  return v.where == StorageClass::Function || v.where == StorageClass::Workgroup;
}

void Verifier::store(const Instruction& i) {
  if (i.args.size() < 2) return fail("a store of nothing");
  const Thing *pointer = used(i.args[0]), *value = used(i.args[1]);
  if (!pointer || !value) return;
  if (!has_memory_words(i.args.subspan(2), pointer->root)) return fail("a store with other words than its memory has");
  if (pointer->root == 0 || value->type == 0 || things_[pointer->type].op != Op::TypePointer || things_[pointer->type].element != value->type || value->kind == Kind::Variable)
    return fail("a store of another type than the place has");
  if (things_[value->type].op == Op::TypePointer || !may_write(pointer->root)) return fail("a store to what may not be written");
  if (things_[pointer->root].where == StorageClass::Function) flow_.store(pointer->root, {i.args[0], i.args[1]});
}

void Verifier::barrier(const Instruction& i) {
  if (!sized(i, 3)) return;
  const bool known = is_constant(i.args[0], kScopeWorkgroup) && is_constant(i.args[1], kScopeWorkgroup) &&
                     is_constant(i.args[2], kAcquireRelease | kUniformMemory | kWorkgroupMemory | (has_matrices() ? kMakeAvailable | kMakeVisible : 0));
  if (!known || !entry_.has_barriers) return fail("a barrier of another kind, or one that the entry does not state");
  flow_.meeting();
}

// Within subgroups, all of whose lanes come; never of floats, whose sums have an order.
bool Verifier::between_lanes(const Instruction& i, Id result) {
  if (i.args.size() != 5 || !is_constant(i.args[2], kScopeSubgroup)) return false;
  flow_.meeting();
  if (i.op == Op::GroupNonUniformShuffleXor) {
    const Thing* distance = used(i.args[4]);
    return has(Capability::GroupNonUniformShuffle) && is_int(result, 32) && has_type(i.args.subspan(3, 1), result) && distance && distance->op == Op::Constant &&
           is_int(distance->type, 32) && distance->value > 0 && distance->value < kMostSubgroup;
  }
  const bool logical = i.op == Op::GroupNonUniformLogicalAnd || i.op == Op::GroupNonUniformLogicalOr;
  return has(Capability::GroupNonUniformArithmetic) && i.args[3] == kReduce && (logical ? is_bool(result) : is_int(result, 32)) && has_type(i.args.subspan(4), result);
}

// Of the fault buffer only, and never of floats.
bool Verifier::exchange(const Instruction& i, Id result) {
  if (i.args.size() != 8 || !is_int(result, 32)) return false;
  const Thing* pointer = used(i.args[2]);
  if (!pointer || pointer->root == 0 || pointer->root != faults_ || pointer->kind == Kind::Variable) return false;
  return is_constant(i.args[3], kScopeDevice) && is_constant(i.args[4], 0) && is_constant(i.args[5], 0) && has_type(i.args.subspan(6), result);
}

// What lanes tell each other is marked: all that the block shares, and buffers that they both read and write. Modules of the older memory model have no such words.
bool Verifier::has_memory_words(Words words, Id variable) {
  const bool is_marked = words.size() == 1 && words[0] == kNonPrivate;
  if (!has_matrices() || variable == 0) return words.empty();
  switch (things_[variable].where) {
    case StorageClass::Workgroup: return is_marked;
    case StorageClass::StorageBuffer: return words.empty() || is_marked;
    default: return words.empty();
  }
}

bool Verifier::in_cells(Id id) {
  const Thing* pointer = used(id);
  return pointer && pointer->kind == Kind::Value && pointer->op == Op::AccessChain && pointer->root != 0 && pointer->root == shared_;
}

bool Verifier::matrix_load(const Instruction& i, Id result) {
  if (!has_matrices() || i.args.size() != 6 || i.args[5] != kNonPrivate || !in_cells(i.args[2])) return false;
  const Thing* stride = used(i.args[4]);
  if (!stride || stride->op != Op::Constant || !is_int(stride->type, 32)) return false;
  flow_.meeting();
  return is_matrix(result, MatrixUse::A) ? is_constant(i.args[3], kRowMajor) : is_matrix(result, MatrixUse::B) && is_constant(i.args[3], kColumnMajor);
}

bool Verifier::matrix_product(const Instruction& i, Id result) {
  if (!has_matrices() || i.args.size() != 5 || !is_matrix(result, MatrixUse::Accumulator)) return false;
  flow_.meeting();
  const Thing *a = used(i.args[2]), *b = used(i.args[3]);
  return a && b && is_matrix(a->type, MatrixUse::A) && is_matrix(b->type, MatrixUse::B) && has_type(i.args.subspan(4), result);
}

void Verifier::matrix_store(const Instruction& i) {
  if (!sized(i, 5)) return;
  const Thing *value = used(i.args[1]), *stride = used(i.args[3]);
  if (!has_matrices() || !value || !stride || i.args[4] != kNonPrivate || !in_cells(i.args[0]) || !is_constant(i.args[2], kRowMajor) || stride->op != Op::Constant || !is_int(stride->type, 32) ||
      value->kind == Kind::Variable || !is_matrix(value->type, MatrixUse::Accumulator))
    return fail("a store of a matrix of another form");
  flow_.meeting();
}

}  // namespace mlc::targets::spirv
