#include "targets/spirv/body.h"

#include <bit>

namespace mlc::targets::spirv {

Id Body::type(Reg reg) {
  switch (reg) {
    case Reg::Bool: return w.unique(Op::TypeBool, {});
    case Reg::U32: return w.unique(Op::TypeInt, {32, 0});
    case Reg::U64: w.capability(Capability::Int64); return w.unique(Op::TypeInt, {64, 0});
    case Reg::F32: return w.unique(Op::TypeFloat, {32});
    case Reg::F64: w.capability(Capability::Float64); return w.unique(Op::TypeFloat, {64});
  }
  return 0;
}

Id Body::pointer(StorageClass where, Id type) { return w.unique(Op::TypePointer, {static_cast<uint32_t>(where), type}); }

Id Body::real(Reg reg, double v) {
  if (reg == Reg::F32) return w.unique(Op::Constant, {type(reg), std::bit_cast<uint32_t>(static_cast<float>(v))});
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  return w.unique(Op::Constant, {type(reg), static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)});
}

Id Body::op(Op op, Reg to, std::initializer_list<Id> args) {
  const Id id = w.result(op, type(to), args);
  if (op == Op::FAdd || op == Op::FSub || op == Op::FMul) w.decorate(id, Decoration::NoContraction);
  return id;
}

Id Body::glsl(Glsl which, Reg to, std::initializer_list<Id> args) {
  std::vector<uint32_t> words{w.glsl(), static_cast<uint32_t>(which)};
  words.insert(words.end(), args.begin(), args.end());
  return w.result(Op::ExtInst, type(to), words);
}

// Not OpSConvert: Mesa 22.3 makes a comparison of what that gives with a constant always true (`5 < long(i)` for i of 0 to 3).
Id Body::extended(Id v) {
  const Id sign = u64(uint64_t{1} << 31), flipped = op(Op::BitwiseXor, Reg::U64, {op(Op::UConvert, Reg::U64, {v}), sign});
  return op(Op::ISub, Reg::U64, {flipped, sign});
}

Body::Variable Body::variable(Reg reg, Id value) {
  const Variable v = variable(reg);
  store(v, value);
  return v;
}

void Body::close(Id to) {
  if (!closed_) w.effect(Op::Branch, {to});
  closed_ = false;
}

void Body::if_(Id condition, const Block& then, const Block& otherwise) {
  const Id yes = w.fresh(), no = otherwise ? w.fresh() : 0, merge = w.fresh();
  w.effect(Op::SelectionMerge, {merge, 0});
  w.effect(Op::BranchConditional, {condition, yes, no ? no : merge});
  w.label(yes);
  then();
  close(merge);
  if (no) {
    w.label(no);
    otherwise();
    close(merge);
  }
  w.label(merge);
}

void Body::loop(const std::function<Id()>& condition, const Block& body, const Block& next) {
  const Id head = w.fresh(), test = w.fresh(), inside = w.fresh(), again = w.fresh(), exit = w.fresh();
  w.effect(Op::Branch, {head});
  w.label(head);
  w.effect(Op::LoopMerge, {exit, again, 0});
  w.effect(Op::Branch, {test});
  w.label(test);
  const Id holds = condition();
  w.effect(Op::BranchConditional, {holds, inside, exit});
  w.label(inside);
  exits_.push_back(exit);
  body();
  exits_.pop_back();
  close(again);
  w.label(again);
  if (next) next();
  w.effect(Op::Branch, {head});
  w.label(exit);
}

void Body::leave_loop() {
  w.effect(Op::Branch, {exits_.back()});
  closed_ = true;
}

void Body::return_() {
  w.effect(Op::Return, {});
  closed_ = true;
}

}  // namespace mlc::targets::spirv
