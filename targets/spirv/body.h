// The body of a kernel as it is written: values of five kinds, arithmetic on them, variables, structured control flow. All values are
// scalars: a vector of Loop is several of them. Integers have no sign, operations have.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "targets/spirv/writer.h"

namespace mlc::targets::spirv {

// What a value is held in.
enum class Reg : uint8_t { Bool, U32, U64, F32, F64 };

class Body {
 public:
  explicit Body(Writer& writer) : w(writer) {}

  Id type(Reg reg);
  Id pointer(StorageClass where, Id type);
  Id boolean(bool v) { return w.unique(v ? Op::ConstantTrue : Op::ConstantFalse, {type(Reg::Bool)}); }
  Id u32(uint32_t v) { return w.unique(Op::Constant, {type(Reg::U32), v}); }
  Id u64(uint64_t v) { return w.unique(Op::Constant, {type(Reg::U64), static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32)}); }
  Id integer(Reg reg, uint64_t v) { return reg == Reg::U64 ? u64(v) : u32(static_cast<uint32_t>(v)); }
  Id real(Reg reg, double v);  // rounded to it

  // Sums, differences and products of floats are marked: they are rounded each.
  Id op(Op op, Reg to, std::initializer_list<Id> args);
  Id test(Op op, Id a, Id b) { return this->op(op, Reg::Bool, {a, b}); }
  Id glsl(Glsl which, Reg to, std::initializer_list<Id> args);
  Id select(Reg to, Id condition, Id yes, Id no) { return op(Op::Select, to, {condition, yes, no}); }
  // Signed numbers of 32 bits as those of 64.
  Id extended(Id v);
  Id negate(Id condition) { return op(Op::LogicalNot, Reg::Bool, {condition}); }

  struct Variable {
    Id pointer = 0;
    Reg reg = Reg::U32;
  };
  Variable variable(Reg reg) { return {w.local(pointer(StorageClass::Function, type(reg))), reg}; }
  Variable variable(Reg reg, Id value);
  Id load(const Variable& v) { return w.result(Op::Load, type(v.reg), {v.pointer}); }
  void store(const Variable& v, Id value) { w.effect(Op::Store, {v.pointer, value}); }

  using Block = std::function<void()>;
  void if_(Id condition, const Block& then, const Block& otherwise = {});
  // while (condition()) { body(); next(); }
  void loop(const std::function<Id()>& condition, const Block& body, const Block& next = {});
  void leave_loop();  // nothing may follow in its block; so with return_
  void return_();

  Writer& w;

 private:
  void close(Id to);  // the block, unless it is

  bool closed_ = false;
  std::vector<Id> exits_;  // of the loops around
};

}  // namespace mlc::targets::spirv
