// Types, constants and variables of a module.
#include <algorithm>

#include "targets/spirv/verifier.h"

namespace mlc::targets::spirv {

namespace {
constexpr uint32_t kMaxCells = 1u << 24;  // elements of an array
constexpr uint32_t kScalarsOffset = 16;
}  // namespace

const Verifier::Thing* Verifier::type(Id id) {
  const Thing* t = thing(id);
  if (t && t->kind != Kind::Type) return fail("id " + std::to_string(id) + " is no type"), nullptr;
  return t;
}

bool Verifier::is_int(Id t, uint32_t width) const { return t < things_.size() && things_[t].kind == Kind::Type && things_[t].op == Op::TypeInt && things_[t].width == width; }
bool Verifier::is_float(Id t) const { return t < things_.size() && things_[t].kind == Kind::Type && things_[t].op == Op::TypeFloat && things_[t].width != 16; }
bool Verifier::is_bool(Id t) const { return t < things_.size() && things_[t].kind == Kind::Type && things_[t].op == Op::TypeBool; }

void Verifier::declarations() {
  Instruction i;
  while (status_.ok() && !peek(Op::Function) && next(i)) {
    if ((i.op >= Op::TypeVoid && i.op <= Op::TypeFunction) || i.op == Op::TypeCooperativeMatrix) declare_type(i);
    else if (i.op >= Op::ConstantTrue && i.op <= Op::ConstantComposite) declare_constant(i);
    else if (i.op == Op::Variable) declare_variable(i);
    else fail("instruction " + std::to_string(static_cast<int>(i.op)) + " is not allowed outside of the function");
  }
  if (interface_ != variables_) fail("an interface of other variables than it must name");
  if ((shared_ != 0) != (entry_.shared_bytes != 0)) fail("shared memory that the entry does not state");
}

void Verifier::declare_number(const Instruction& i, Thing& t) {
  if (!sized(i, i.op == Op::TypeInt ? 3 : 2)) return;
  t.width = i.args[1];
  if (i.op == Op::TypeInt && i.args[2] != 0) return fail("a type of numbers with a sign");
  const auto needs = [&](Capability c) {
    if (!capabilities_.contains(static_cast<uint32_t>(c))) fail("a type of " + std::to_string(t.width) + " bits without its capability");
  };
  if (t.width == 64) return needs(i.op == Op::TypeInt ? Capability::Int64 : Capability::Float64);
  if (t.width == 32) return;
  if (i.op == Op::TypeFloat && t.width == 16) return needs(Capability::Float16);  // of matrices only
  if (i.op == Op::TypeInt && t.width == 16) return needs(Capability::StorageBuffer16BitAccess);
  if (i.op == Op::TypeInt && t.width == 8) return needs(Capability::StorageBuffer8BitAccess);
  fail("a type of " + std::to_string(t.width) + " bits");
}

void Verifier::declare_type(const Instruction& i) {
  if (i.args.empty()) return fail("a type without id");
  // Of types that are no aggregates there is one each.
  if (i.op != Op::TypeStruct && i.op != Op::TypeArray && i.op != Op::TypeRuntimeArray) {
    std::vector<uint32_t> key(i.args.begin(), i.args.end());
    key[0] = static_cast<uint32_t>(i.op);
    if (!simple_types_.insert(std::move(key)).second) return fail("a type twice");
  }
  Thing made;
  describe_type(i, made);
  if (!status_.ok()) return;
  if (Thing* t = define(i.args[0], Kind::Type, i.op, 0)) {
    t->width = made.width, t->element = made.element, t->count = made.count, t->where = made.where, t->root = made.root;
  }
}

// Of what was declared before it.
void Verifier::describe_type(const Instruction& i, Thing& t) {
  switch (i.op) {
    case Op::TypeVoid: case Op::TypeBool: sized(i, 1); return;
    case Op::TypeInt: case Op::TypeFloat: return declare_number(i, t);
    case Op::TypeVector:
      if (sized(i, 3) && (!is_int(i.args[1], 32) || i.args[2] != 3)) fail("a vector that is not of three words");
      t.element = i.args.size() > 1 ? i.args[1] : 0, t.count = 3;
      return;
    case Op::TypeArray: {
      if (!sized(i, 3)) return;
      const Thing* n = used(i.args[2]);
      if (!n || n->op != Op::Constant || !is_int(n->type, 32) || n->value == 0 || n->value > kMaxCells) return fail("an array without a size");
      if (!is_word(i.args[1]) && !is_float(i.args[1]) && !is_bool(i.args[1])) return fail("an array of no numbers");
      t.element = i.args[1], t.count = static_cast<uint32_t>(n->value);
      return;
    }
    case Op::TypeRuntimeArray: {
      if (!sized(i, 2)) return;
      const Thing* e = type(i.args[1]);
      if (!e || e->op != Op::TypeInt || decorations_[i.args[0]].stride != e->width / 8) return fail("a buffer whose elements do not follow each other");
      t.element = i.args[1];
      return;
    }
    case Op::TypeStruct:
      t.count = static_cast<uint32_t>(i.args.size() - 1), t.element = i.args.size() > 1 ? i.args[1] : 0;
      if (!decorated(i.args[0], Decoration::Block) || t.count == 0 || decorations_[i.args[0]].offsets.size() != t.count) return fail("a structure without a layout");
      for (const Id m : i.args.subspan(1))
        if (!type(m)) return;
      t.root = static_cast<Id>(began_);  // where its members stand
      return;
    case Op::TypePointer:
      if (!sized(i, 3) || !type(i.args[2])) return;
      t.where = static_cast<StorageClass>(i.args[1]), t.element = i.args[2];
      switch (t.where) {
        case StorageClass::Input: case StorageClass::Workgroup: case StorageClass::Function: case StorageClass::PushConstant: case StorageClass::StorageBuffer: return;
      }
      return fail("a pointer into storage that is not allowed");
    case Op::TypeFunction:
      if (sized(i, 2) && (!type(i.args[1]) || things_[i.args[1]].op != Op::TypeVoid)) fail("a function that takes or gives something");
      return;
    case Op::TypeCooperativeMatrix: return describe_matrix(i, t);
    default: fail("type " + std::to_string(static_cast<int>(i.op)) + " is not allowed");
  }
}

void Verifier::declare_constant(const Instruction& i) {
  if (i.args.size() < 2) return fail("a constant without type");
  const Id t = i.args[0];
  if (i.op == Op::ConstantComposite) {  // all elements are one number
    const Thing* element = sized(i, 3) && is_matrix(t, MatrixUse::Accumulator) ? used(i.args[2]) : nullptr;
    if (!element || element->op != Op::Constant || element->type != things_[t].element) fail("a constant that is no matrix of one number");
  } else if (i.op != Op::Constant) {
    if (sized(i, 2) && !is_bool(t)) fail("a truth value of another type");
  } else if (!is_word(t) && !is_float(t)) {
    fail("a constant of another type");
  } else {
    sized(i, things_[t].width == 64 ? 4 : 3);
  }
  if (!status_.ok()) return;
  if (Thing* c = define(i.args[1], Kind::Constant, i.op, t))
    c->value = i.op == Op::ConstantComposite ? 0 : i.op != Op::Constant ? i.op == Op::ConstantTrue : i.args[2] | (i.args.size() > 3 ? uint64_t{i.args[3]} << 32 : 0);
}

void Verifier::declare_variable(const Instruction& i) {
  if (!sized(i, 3)) return;
  const Thing* pointer = type(i.args[0]);
  if (!pointer || pointer->op != Op::TypePointer || static_cast<uint32_t>(pointer->where) != i.args[2]) return fail("a variable that is not of its pointer");
  Thing* v = define(i.args[1], Kind::Variable, i.op, i.args[0]);
  if (!v) return;
  v->where = pointer->where, v->element = pointer->element, v->root = i.args[1];
  if (subgroups_ || v->where == StorageClass::Input) variables_.push_back(i.args[1]);
  const Thing& held = things_[pointer->element];
  switch (pointer->where) {
    case StorageClass::Input: return check_input(i.args[1], held);
    case StorageClass::StorageBuffer: return check_storage(i.args[1], held);
    case StorageClass::PushConstant:
      if (push_) return fail("push constants twice");
      push_ = i.args[1];
      return check_push(pointer->element, held);
    case StorageClass::Workgroup:
      if (shared_ || held.op != Op::TypeArray || !is_int(held.element, 32) || uint64_t{held.count} * 4 != entry_.shared_bytes)
        return fail("shared memory of another size than the entry states");
      shared_ = i.args[1];
      return;
    case StorageClass::Function: return fail("a variable of a function outside of it");
  }
}

void Verifier::check_input(Id id, const Thing& held) {
  const auto builtin = static_cast<BuiltIn>(decorations_[id].builtin);
  const bool is_group = builtin == BuiltIn::WorkgroupId && held.op == Op::TypeVector;
  const bool of_subgroup = builtin == BuiltIn::SubgroupSize || builtin == BuiltIn::SubgroupId || builtin == BuiltIn::SubgroupLocalInvocationId;
  const bool is_number = builtin == BuiltIn::LocalInvocationIndex || (of_subgroup && has(Capability::GroupNonUniform));
  if (!is_group && !(is_number && held.op == Op::TypeInt && held.width == 32)) return fail("an input that is neither the block nor the lane");
}

// A structure of one array without end, at a binding of its own.
void Verifier::check_storage(Id id, const Thing& held) {
  const Decorations& d = decorations_[id];
  if (held.op != Op::TypeStruct || held.count != 1 || things_[held.element].op != Op::TypeRuntimeArray) return fail("a buffer that is no array");
  for (const auto& [member, offset] : decorations_[things_[things_[id].type].element].offsets)
    if (member != 0 || offset != 0) return fail("a buffer that does not begin at its first byte");
  if (!d.which.contains(Decoration::Binding) || !d.which.contains(Decoration::DescriptorSet) || d.set != 0 || !bindings_.insert(d.binding).second)
    return fail("a buffer without a binding of its own");
  const uint32_t scalars = entry_.num_buffers, faults = scalars + (entry_.num_scalars > mlc::gpu::kMaxPushScalars);
  const uint32_t width = things_[things_[held.element].element].width;
  if (d.binding < scalars) {
    const bool written = d.binding >= 64 || (entry_.written >> d.binding & 1);
    if (!written && !d.which.contains(Decoration::NonWritable)) fail("a buffer that may be written, which the entry does not say");
    return;
  }
  if (d.binding < faults) {
    if (width != 64 || !d.which.contains(Decoration::NonWritable)) fail("scalars that are no scalars");
    return;
  }
  if (d.binding != faults || !entry_.may_fault || width != 32) return fail("binding " + std::to_string(d.binding) + " is not of this entry");
  faults_ = id;
}

// Tiles, the launch, and the scalars.
void Verifier::check_push(Id id, const Thing& held) {
  const uint32_t pushed = entry_.num_scalars > mlc::gpu::kMaxPushScalars ? 0 : entry_.num_scalars;
  if (held.op != Op::TypeStruct || held.count != 2 + pushed) return fail("other push constants than the entry has");
  const Words members = words_.subspan(held.root + 2, held.count);
  const auto& offsets = decorations_[id].offsets;
  for (uint32_t m = 0; m < held.count; ++m) {
    const auto at = offsets.find(m);
    if (!is_int(members[m], m < 2 ? 32 : 64) || at == offsets.end() || at->second != (m < 2 ? 4 * m : kScalarsOffset + 8 * (m - 2)))
      return fail("push constant " + std::to_string(m) + " lies elsewhere");
  }
}

// Matrices of subgroups have one shape, factors of f16 and sums of f32.
void Verifier::describe_matrix(const Instruction& i, Thing& t) {
  if (!sized(i, 6)) return;
  if (!has_matrices() || !type(i.args[1])) return fail("a matrix without its capability");
  const Thing* use = used(i.args[5]);
  if (!use || use->op != Op::Constant || !is_int(use->type, 32) || use->value > static_cast<uint32_t>(MatrixUse::Accumulator)) return fail("a matrix for another use");
  t.element = i.args[1], t.count = static_cast<uint32_t>(use->value);
  const Thing& element = things_[t.element];
  const uint32_t width = t.count == static_cast<uint32_t>(MatrixUse::Accumulator) ? 32 : 16;
  if (element.op != Op::TypeFloat || element.width != width) return fail("a matrix of other numbers than f16, or sums of others than f32");
  if (!is_constant(i.args[2], kScopeSubgroup) || !is_constant(i.args[3], matrices_.side) || !is_constant(i.args[4], matrices_.side)) fail("a matrix of another shape or scope than the target has");
}

bool Verifier::is_matrix(Id t) const { return t < things_.size() && things_[t].kind == Kind::Type && things_[t].op == Op::TypeCooperativeMatrix; }
bool Verifier::is_matrix(Id t, MatrixUse use) const { return is_matrix(t) && things_[t].count == static_cast<uint32_t>(use); }

}  // namespace mlc::targets::spirv
