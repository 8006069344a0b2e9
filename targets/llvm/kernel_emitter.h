// One Loop kernel to one LLVM function. Internal to targets/llvm.
//
// Locals become allocas in the entry block, which SROA turns into phis; vectors stay as wide as Loop says and the code
// generator splits them. Small floats (f16, bf16, f8*) travel as the integers of their bits and compute in f32.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "targets/gpu/ranges.h"
#include "targets/instructions.h"
#include "targets/llvm/frame.h"
#include "targets/quotient.h"
#include "targets/target.h"

namespace mlc::targets {

// What the code generator of a target cannot do without calling a library, or does better than the plain expansion.
struct Abilities {
  bool fma = false;        // Op::Fma may become one instruction
  bool round = false;      // floor, ceil, trunc, rint as instructions
  bool f16_convert = false;  // conversions between f16 and f32
  bool ptx_convert = false;  // the same in PTX; numbers one by one
  bool ptx_convert_bf16 = false;  // to bf16; from it is a shift
  bool ptx_convert_pairs = false; // two at once to f16 or bf16
  bool ieee_minmax = false;  // min and max that propagate NaN
  bool ieee_minmax_f64 = false;
  bool calls = true;       // functions may call each other; else what is called becomes part of its caller
  const Target* target = nullptr;  // must outlive this
};
Abilities abilities_of(const Target& target);

// Its code is text for the assembler in NVIDIA's driver.
inline bool is_ptx(const Target& target) { return target.is_device() && !target.llvm_triple.empty(); }

// Of a vector; 1 of a scalar.
inline unsigned lanes_of(const llvm::Value* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? vector->getNumElements() : 1;
}

// Attribute of a function for which LLVM shall not move values out of loops: "innermost", "none" (loop::Hoisting).
inline constexpr char kHoistingAttribute[] = "mlc-hoisting";

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const Abilities& abilities, Frame& frame);  // which must outlive it
  // Adds the function `name` to the module.
  Status emit(const loop::Kernel& kernel, const std::string& name);
  // Scratch memory that the kernel emitted last needs.
  uint64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  using Expr = ir::Expr;
  using Value = llvm::Value;

  // Types. `reg` is how a value is held, `mem` how one element is stored in memory.
  llvm::Type* reg_scalar(DType dtype);
  llvm::Type* reg_type(ir::Type type);
  llvm::Type* mem_scalar(DType dtype);
  static llvm::Type* with_lanes(llvm::Type* scalar, unsigned lanes);

  // Statements.
  void forget_all();
  void take_arguments(const Frame::Arguments& arguments, const std::string& name);
  void place_symbolic_locals();
  void block(const std::vector<loop::StmtPtr>& body);
  void statement(const loop::Stmt& s);
  void for_loop(const loop::Stmt& s);
  void while_loop(const loop::Stmt& s);
  void if_else(const loop::Stmt& s);
  void body_once(const loop::Stmt& s, Value* var);
  void fault_if(Value* condition, int32_t code, llvm::BasicBlock* on_fault = nullptr);
  void store(const loop::Stmt& s);
  void prefetch(const loop::Stmt& s);
  void mma(const loop::Stmt& s);  // dot.cpp
  // x86_ops.cpp
  void tiles(const loop::Stmt& s);
  Value* tile_factor(const Expr* first, const Expr* stride, unsigned registers);
  void configure_tiles();
  void load_configuration(int64_t row_bytes);
  void release_tiles();
  llvm::AllocaInst* entry_alloca(llvm::Type* type);
  llvm::BasicBlock* new_block(const char* name);

  // Memory.
  Value* element_pointer(uint32_t array, DType dtype, Value* index);
  static constexpr uint64_t kMostAligned = 16;  // bytes
  uint64_t power_dividing(const Expr* index, uint64_t most, int depth = 8) const;
  llvm::Align alignment(uint32_t array, ir::Type type, const ir::Expr* index) const;
  bool is_word_of_bytes(const Expr& e) const;
  Value* load(const Expr& e);
  Value* from_memory(Value* loaded, ir::Type type);
  Value* to_memory(Value* value, ir::Type type);
  template <class Instruction>
  Instruction* annotate(Instruction* access, uint32_t array);

  // Expressions. Values of the current statement are remembered; those free of loads and mutable locals are kept as
  // long as the block that computed them is open.
  Value* eval(const Expr* e);
  Value* eval_lazy(const Expr* e);
  Value* node(const Expr& e);  // operands are already evaluated
  Value* arg(const Expr& e, unsigned k) { return value_of(e.args[k]); }
  Value* value_of(const Expr* e);  // which is evaluated
  bool is_lazy(const Expr& e);
  uint8_t flags_of(const Expr* e);
  void remember(const Expr* e, Value* v);
  size_t open_scope() const { return log_.size(); }
  void close_scope(size_t mark);
  void end_statement();

  // Hoisting::None: names and what a statement uses twice live in scratch memory (scratch_values.cpp).
  struct Slot {
    Value* place = nullptr;  // an alloca; or an address in scratch memory, of volatile accesses
    llvm::Type* type = nullptr;
  };
  Slot new_slot(llvm::Type* type);
  void write(const Slot& slot, Value* v) { b_.CreateStore(v, slot.place, in_scratch_); }
  Value* read(const Slot& slot) { return b_.CreateLoad(slot.type, slot.place, in_scratch_); }
  void plan_statement(const Expr* root);
  void order_operands(std::vector<const Expr*>& operands) const;

  Value* constant(const Expr& e);
  Value* unary(const Expr& e, Value* a);
  Value* float_unary(ir::Op op, Value* a);
  Value* binary(const Expr& e, Value* a, Value* b);
  Value* float_binary(ir::Op op, Value* a, Value* b);
  Value* int_binary(ir::Op op, DType dtype, Value* a, Value* b, const Expr& e);
  Value* narrow_binary(const Expr& e, Value* a, Value* b);
  Value* divide(ir::Op op, bool is_signed, Value* a, Value* b);
  Value* shift(bool left, bool is_signed, Value* a, Value* b);
  Value* compare(ir::Op op, DType dtype, Value* a, Value* b);
  Value* min_max(bool is_min, Value* a, Value* b);
  Value* x86_min_max(bool is_min, Value* a, Value* b);
  Value* x86_scaled(Value* a, Value* b);
  Value* round_to_integral(ir::Op op, Value* a);
  Value* cast(Value* a, DType from, DType to);
  Value* sat_cast(Value* a, DType from, DType to);
  Value* bitcast(Value* a, ir::Type from, ir::Type to);
  Value* reduce(const Expr& e, Value* a);
  Value* shuffled(const Expr& e);
  Value* concatenate(std::vector<Value*> parts);  // of equal type; a single lane counts as a vector of one
  Value* per_lane(llvm::Function* f, Value* a, Value* b);

  void copy(const loop::Stmt& s);  // gpu_frame.cpp
  // What lanes of a block have, folded (gpu_frame.cpp).
  void fold_lanes(const loop::Stmt& s);
  void load_matrices(const loop::Stmt& s);
  void peer(const loop::Stmt& s);
  Value* joined_lanes(const loop::Stmt& s, Value* left, Value* right);
  Value* of_partner(Value* v, uint32_t distance);
  Value* fold_warp(const loop::Stmt& s, Value* v, uint32_t width);
  Value* fold_warps(const loop::Stmt& s, Value* v, uint32_t width);

  // Groups of lanes (dot.cpp).
  Value* take_lanes(Value* v, unsigned first, unsigned count);
  Value* splat_group(Value* group, ir::Type type, unsigned lanes);
  Value* dot(const Expr& e);
  Value* device_dot(Value* acc, Value* a, Value* b, DType a_type, DType b_type);
  void group_mma(const loop::Stmt& s);
  Value* group_factor(const loop::Stmt& s, bool of_b);
  Value* native_dot_of(const DotChoice& how, Value* acc, Value* a, Value* b);
  Value* half_of_bytes(Value* bytes, bool is_signed, bool odd);
  Value* pairs_dot(Value* acc, Value* a, Value* b, DType a_type, DType b_type);
  Value* plain_dot(Value* acc, Value* a, Value* b, DType a_type, DType b_type);

  // Numbers rounded to codes of 8 bits (quantise.cpp).
  struct Coding {
    const Expr* real = nullptr;  // evaluated
    std::optional<Quotient> quotient;  // by `divisor`, which `real` is yet to be divided by
    double divisor = 1;
    int zero = 0, of_nan = 0;  // zero point, code of NaN
    DType type = DType::None;
  };
  std::optional<Coding> coding_of(const Expr& e) const;
  std::optional<Coding> flipped_coding_of(const Expr& e) const;
  Value* nearest_integers(Value* v, bool may_be_nan, int of_nan);
  Value* wide_codes(const Coding& c, bool to_bytes);
  Value* codes(const std::optional<Coding>& c);
  Value* codes_as_f32(const Expr& e);
  Value* word_of_bytes(const Expr& e);
  Value* halves_of_words(const Expr& e);
  Value* permuted(const Expr* low, const Expr* high, uint32_t bytes);

  // Small floats.
  Value* to_f32(Value* bits, DType from);    // identity for f32
  Value* from_f32(Value* value, DType to);
  Value* pair_of_rounded(const Expr& e);
  Value* to_tf32(Value* value);  // of targets with tensor cores
  Value* exp2(Value* value);     // of targets that have an instruction for it
  Value* f64_to_small(Value* value, DType to);
  bool is_small(DType t) const { return is_float(t) && t != DType::F32 && t != DType::F64; }

  Value* splat_const(double value, llvm::Type* like);
  Value* splat_int(uint64_t value, llvm::Type* like);
  Value* intrinsic(llvm::Intrinsic::ID id, std::initializer_list<Value*> args);
  void fail(std::string message);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const Abilities& can_;
  Frame& frame_;
  llvm::IRBuilder<> b_;
  const loop::Kernel* kernel_ = nullptr;
  llvm::Function* function_ = nullptr;
  Status status_;

  struct Buffer {
    Value* base = nullptr;
    DType dtype = DType::None;
    llvm::MDNode* scope = nullptr;
    llvm::MDNode* no_alias = nullptr;
  };
  std::vector<Buffer> buffers_;
  std::unordered_map<const ir::Sym*, Value*> syms_;
  std::unordered_map<int64_t, Value*> vars_;                // For, Let, tile_begin, tile_end
  std::unordered_map<int64_t, Slot> locals_;                // Local; in scratch memory: Let too
  std::unordered_map<const Expr*, Value*> cache_;
  std::vector<const Expr*> log_;         // kept entries of cache_, in order
  std::vector<const Expr*> statement_;   // entries of cache_ that end with the statement
  std::unordered_map<const Expr*, uint8_t> flags_;
  bool in_scratch_ = false;
  std::unordered_map<const Expr*, uint32_t> uses_, registers_;  // in scratch memory: uses in this statement; to evaluate it
  std::unordered_map<const Expr*, Slot> shared_;                // in scratch memory: values of cache_ with several uses
  // What lies in the registers of factors, since the last statement but Tiles.
  struct TileFactor {
    const Expr *first = nullptr, *stride = nullptr;
    uint64_t age = 0;
  };
  std::array<TileFactor, 4> tile_factors_;
  uint64_t tile_uses_ = 0;
  bool uses_tiles_ = false;
  int64_t configured_bytes_ = 0;  // of a row of all tiles; 0: each Begin says its own
  Value* lane_ = nullptr;  // of a block
  Value* partials_ = nullptr;  // devices: memory of a block with a number for each warp
  gpu::Ranges ranges_;     // devices
  std::unordered_map<int64_t, uint64_t> powers_;  // devices: of two, up to kMostAligned, that divide variables
  Value* scratch_ = nullptr;
  uint64_t scratch_bytes_ = 0;
  unsigned lazy_depth_ = 0;
  uint64_t statements_left_ = 0;
};

// Whole-module helpers, added on first use: exact fmod of two floats, integer power. `calls`: as in Abilities.
llvm::Function* fmod_function(llvm::Module& module, bool is_f64, bool calls);
llvm::Function* ipow_function(llvm::Module& module, bool calls);

}  // namespace mlc::targets
