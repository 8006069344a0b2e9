// A Loop kernel as portable code. Instructions cost the same whatever they do, so the encoder keeps them few: pure
// values are computed once, in the outermost loop whose variables they need; constants of an address become part of the
// load; a multiply-add with a broadcast operand is one instruction; an assignment computes in place.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"
#include "schema/portable_code.h"

namespace mlc::targets::portable {

using mlc::portable::Instruction;
using mlc::portable::Kind;

// Floats of less than 32 bits are kept in registers as f32, integers of less than 32 bits as i32.
inline bool is_small(DType t) { return is_float(t) && t != DType::F32 && t != DType::F64; }
inline bool is_narrow(DType t) { return is_int(t) && bits_of(t) < 32; }

// Scopes, registers and statements are in encoder.cpp, expressions in encode_expr.cpp, what these are made of in
// encode_memory.cpp, encode_operations.cpp and encode_casts.cpp.
class Encoder {
 public:
  // Appends the kernel's bytes, in the form of schema/portable_code.h.
  Status encode(const loop::Kernel& kernel, std::vector<std::byte>& out);

 private:
  using Expr = ir::Expr;
  using PortableOp = mlc::portable::Op;
  using R = uint16_t;  // register number
  static constexpr R kNone = mlc::portable::kNoRegister;

  struct Register {
    Kind kind;
    uint8_t lanes;
    uint16_t level = 0;      // scope that owns it
    bool is_stable = true;   // holds one value as long as its scope is open; others end with their statement
    bool is_local = false;   // a mutable local
  };
  using Key = std::tuple<uint8_t, uint8_t, uint16_t, R, R, R, int64_t>;

  // A block of statements: the kernel, a loop body, a branch. Its code is appended to the enclosing scope when it is
  // closed, so what is added to an outer scope meanwhile runs before it.
  struct Scope {
    std::vector<Instruction> code;
    std::map<Key, R> values;                           // pure instructions of this scope
    std::unordered_map<const Expr*, R> known;          // pure expressions of this scope
    std::unordered_map<const Expr*, R> statement;      // the others, for the current statement
    std::vector<R> temporaries;                        // of the current statement
    std::vector<R> owned;                              // until the scope is closed
    std::map<std::pair<Kind, uint8_t>, std::vector<R>> free;
    std::vector<int64_t> vars;                         // defined here
  };

  // Scopes and registers.
  void open_scope() { scopes_.emplace_back(); }
  // A closed block. Its registers may serve the enclosing scope only from the moment its code stands there: what that
  // scope puts behind it runs afterwards.
  struct Closed {
    std::vector<Instruction> code;
    std::vector<R> registers;
  };
  Closed close_scope();
  void end_statement();
  void append(const Closed& block);
  R allocate(size_t level, Kind kind, unsigned lanes);
  R temporary(Kind kind, unsigned lanes);
  void release(size_t level, R r);

  // Statements.
  void block(const std::vector<loop::StmtPtr>& body);
  void statement(const loop::Stmt& s);
  void for_loop(const loop::Stmt& s);
  void while_loop(const loop::Stmt& s);
  void if_else(const loop::Stmt& s);
  void let(const loop::Stmt& s);
  R hold(const Expr* e, bool own);
  void assign(const loop::Stmt& s);

  // Instructions. `emit` picks the scope, finds an equal instruction or makes one.
  R emit(PortableOp op, Kind kind, unsigned lanes, R a = kNone, R b = kNone, R c = kNone, int64_t imm = 0, DType type = DType::None);
  R emit_unstable(Instruction i, Kind kind, unsigned lanes);
  void put(Instruction i) { scopes_.back().code.push_back(i); }
  R constant(Kind kind, unsigned lanes, uint64_t bits) { return emit(PortableOp::Const, kind, lanes, kNone, kNone, kNone, static_cast<int64_t>(bits)); }
  R int_constant(Kind kind, unsigned lanes, int64_t value);
  R float_constant(Kind kind, unsigned lanes, double value);
  R mask(R condition, unsigned lanes);  // one bit for each lane, of a condition that may be one for all

  // Expressions.
  R eval(const Expr* e);
  R eval_unchanging(const Expr* e);  // not the register of a mutable local
  R find(const Expr* e) const;
  void operands(const Expr& e, std::vector<const Expr*>& out);
  int broadcast_operand(const Expr& fma) const;
  R node(const Expr& e);
  R arg(const Expr& e, unsigned k) const { return find(e.args[k]); }
  R unary(const Expr& e, R a);
  R binary(const Expr& e, R a, R b);
  R int_binary(ir::Op op, DType t, unsigned lanes, R a, R b);
  R float_binary(ir::Op op, Kind kind, unsigned lanes, R a, R b);
  R compare(ir::Op op, DType t, unsigned lanes, R a, R b);
  R cast(R a, unsigned lanes, DType from, DType to);
  R sat_cast(R a, unsigned lanes, DType from, DType to);
  R bitcast(R a, unsigned lanes, DType from, DType to);
  R to_bits(R a, unsigned lanes, DType from);
  // Bits of a small float, and the float of such bits.
  R pack(R a, unsigned lanes, DType t) { return emit(PortableOp::Pack, Kind::I32, lanes, a, kNone, kNone, 0, t); }
  R unpack(R bits, unsigned lanes, DType t) { return emit(PortableOp::Unpack, Kind::F32, lanes, bits, kNone, kNone, 0, t); }
  R fit(R a, unsigned lanes, DType t);  // wraps or rounds to a type narrower than its register
  R fail(std::string message);

  // Memory.
  R load(const Expr& e);
  void store(const loop::Stmt& s);
  struct Address {
    std::vector<const Expr*> terms;
    int64_t displacement = 0;
  };
  Address split_address(const Expr* index);
  R sum_of(const Address& address);
  bool constant_value(const Expr* e, int64_t& out) const;

  const loop::Kernel* kernel_ = nullptr;
  Status status_;
  std::vector<Register> registers_;
  std::vector<Scope> scopes_;
  std::unordered_map<int64_t, R> vars_;
  std::unordered_map<int64_t, R> broadcasts_;      // variables that are one lane, many times: the lane
  std::unordered_map<int64_t, int64_t> unrolled_;  // variables of unrolled loops: their value in this copy
  size_t instructions_left_ = 0;
};

}  // namespace mlc::targets::portable
